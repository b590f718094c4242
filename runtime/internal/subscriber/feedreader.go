package subscriber

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A feedReader reads a check, or a check and what is emitted, for a webhook subscription. It numbers
// what it finds and keeps it until it is settled, because the upstream is not asked for the same
// again; what stands for a place after a restart is its cursor (CUR-1).
type feedReader struct {
	binding
	wakeup
	w         *Subscriptions
	principal string

	// pulling is held while the source is pulled. While the source is parked there is no pull.
	pulling sync.Mutex
	src     feed.Source

	mu     sync.Mutex
	args   eventtype.Arguments // of src
	found  []feedItem          // ascending, above what is settled
	bytes  int                 // of found
	passed string              // cursor of what is settled
	head   store.Position
	last   string // cursor of head
	asking bool   // the upstream is being asked, which takes as long as its author's check does
	failed error  // of that, for the next Read
	cancel context.CancelFunc
	parked bool
	held   bool // parked without the source: too much is kept, or the upstream is being asked
	more   bool // the source has more to say than it has been asked
	closed bool
	timer  *time.Timer // when to ask again without a signal
}

// A feedItem is what was found at a position: an occurrence or the loss of some.
type feedItem struct {
	at     store.Position
	o      topic.Outcome
	cursor string
	gap    bool
}

// Bounds of what a check found and is kept for one subscription, in occurrences and in bytes; beyond
// either of them reading pauses until something is settled.
const (
	maxFound      = 2048
	MaxFoundBytes = 4 << 20
)

// full is called under mu.
func (r *feedReader) full() bool { return len(r.found) >= maxFound || r.bytes >= MaxFoundBytes }

// keep is called under mu.
func (r *feedReader) keep(it feedItem) {
	r.head++
	it.at = r.head
	r.found = append(r.found, it)
	r.bytes += it.size()
}

func (it *feedItem) size() int {
	if it.gap {
		return len(it.cursor)
	}
	return it.o.Size() + len(it.cursor)
}

// openFeedReader places a reader at a cursor of the feed's own form.
func (w *Subscriptions) openFeedReader(ctx context.Context, et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments, cursor string, later bool) (r *feedReader, truncated bool, err error) {
	r = &feedReader{w: w, principal: sub.Principal, passed: cursor, last: cursor, args: a}
	r.et = et
	r.bound.Store(&a)
	ctx = hook.WithPrincipal(ctx, sub.Principal)
	r.src, truncated, err = feed.Open(ctx, feed.Seat{Feeds: et.Feeds(), ID: sub.ID, Principal: sub.Principal, Bell: r},
		a.Def.Check(), a.Arguments, feed.Start{Replay: topic.Replay{Cursor: &cursor}, Head: et.Head(), Later: later})
	return r, truncated, err
}

// notAfter is the cursor, or the one before all that is unsettled when that comes first.
func (r *feedReader) notAfter(cursor string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := bare(cursor)
	ahead := len(r.found) > 0 && at == bare(r.last)
	for i := range r.found {
		ahead = ahead || bare(r.found[i].cursor) == at
	}
	if ahead {
		return r.passed
	}
	return cursor
}

// bare is the cursor without its proof, which a cursor lacks that was made while the store did not answer.
func bare(cursor string) string {
	c, err := wire.ParseCursor(cursor)
	if err != nil {
		return cursor
	}
	c.Proof = 0
	return c.String()
}

// Read implements [delivery.Reader].
func (r *feedReader) Read(ctx context.Context, after store.Position, limit int) (delivery.Found, error) {
	if err := r.pull(hook.WithPrincipal(ctx, r.principal), after); err != nil {
		return delivery.Found{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := delivery.Found{Upto: max(after, r.head), More: r.more && !r.asking && !r.full()}
	i := sort.Search(len(r.found), func(i int) bool { return r.found[i].at > after })
	for ; i < len(r.found); i++ {
		it := &r.found[i]
		switch {
		case it.gap && len(f.Items) == 0:
			return delivery.Found{Upto: it.at, More: true, Gap: true}, nil
		case it.gap || len(f.Items) == limit:
			f.Upto, f.More = it.at-1, true
			return f, nil
		}
		f.Items = append(f.Items, deliveryItem(r.w, it.at, &it.o))
	}
	return f, nil
}

// pull takes over what the source has ready, unless something after that position is there already
// or too much is kept. Where the source has to ask the upstream for it, that is begun and not waited
// for: a check that hangs holds up no worker of the engine (HOOK-4).
func (r *feedReader) pull(ctx context.Context, after store.Position) error {
	a, ok := r.arguments()
	r.mu.Lock()
	err := r.failed
	r.failed = nil
	wanted := ok && err == nil && !r.closed && !r.asking && after >= r.head && !r.full()
	r.mu.Unlock()
	if !wanted {
		return err
	}
	r.pulling.Lock()
	if r.args == a && !r.src.Asks() {
		defer r.pulling.Unlock()
		return r.take(ctx, a)
	}
	r.pulling.Unlock()
	r.ask(a)
	return nil
}

// ask pulls in a goroutine of its own and then rings. Close ends it.
func (r *feedReader) ask(a eventtype.Arguments) {
	w := r.w
	ctx, cancel := context.WithCancel(hook.WithPrincipal(w.ctx, r.principal))
	r.mu.Lock()
	if r.asking || r.closed {
		r.mu.Unlock()
		cancel()
		return
	}
	r.asking, r.cancel = true, cancel
	r.mu.Unlock()
	w.background(func() {
		defer cancel()
		r.pulling.Lock()
		err := r.take(ctx, a)
		r.pulling.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.asking = false; r.closed {
			r.src.Close()
			return
		}
		r.failed = err
		r.Ring()
	})
}

// take pulls the source and keeps what it gives. The caller holds pulling.
func (r *feedReader) take(ctx context.Context, a eventtype.Arguments) error {
	if r.args != a {
		if err := r.src.Rebind(ctx, a.Def.Check(), a.Arguments); err != nil {
			return err
		}
		r.mu.Lock()
		r.args = a
		r.mu.Unlock()
	}
	p, err := r.src.Pull(ctx, nil)
	for _, f := range p.Failed {
		r.w.o.Log.Internal(ctx, "checking "+r.et.Name(), f) // a silent retry (PUSH-5)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return err
	}
	for i := range p.Out {
		r.keep(feedItem{o: p.Out[i], cursor: textOf(p.Out[i].Cursor())})
	}
	r.last = textOf(r.src.Cursor())
	if p.Gap {
		r.keep(feedItem{gap: true, cursor: r.last})
	}
	if r.more = p.More; p.Retry > 0 {
		r.alarm(p.Retry)
	}
	return err
}

// textOf reads a cursor that is JSON; "" for null.
func textOf(cursor []byte) string {
	if s := cursorText(cursor); s != nil {
		return *s
	}
	return ""
}

func (r *feedReader) alarm(d time.Duration) {
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.Ring)
		return
	}
	r.timer.Reset(d)
}

// Park implements [delivery.Reader].
func (r *feedReader) Park(after store.Position) bool {
	a, ok := r.arguments()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed || !ok:
		return true
	case r.failed != nil:
		return false
	case r.asking && after >= r.head || r.full():
		r.held, r.parked = true, true
		return true
	case r.asking || after < r.head || r.args != a || r.more:
		return false
	}
	r.parked = r.src.Park()
	return r.parked
}

// Unpark implements [delivery.Reader].
func (r *feedReader) Unpark() store.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held
	if r.unpark(); held {
		return 0 // what came meanwhile is not read
	}
	return r.head
}

func (r *feedReader) unpark() {
	if r.parked && !r.held && !r.closed {
		r.src.Unpark()
	}
	r.parked, r.held = false, false
}

// Passed implements [delivery.Reader].
func (r *feedReader) Passed() store.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.parked || r.held {
		return 0
	}
	return r.head
}

// Cursor implements [delivery.Reader]. The last position's cursor moves on in quiet times (CUR-4);
// that of one below what is kept is a later one, at which all before is settled too.
func (r *feedReader) Cursor(p store.Position) *string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.passed
	if p == r.head {
		c = r.last
		if !r.closed {
			c = r.present()
		}
	} else if i := sort.Search(len(r.found), func(i int) bool { return r.found[i].at > p }); i > 0 {
		c = r.found[i-1].cursor
	}
	return &c
}

// present is the cursor of head, which moves on while the source is parked.
func (r *feedReader) present() string {
	if r.parked && !r.held {
		r.src.Unpark()
		r.last = textOf(r.src.Cursor())
		if !r.src.Park() {
			r.Ring()
		}
	}
	return r.last
}

// settled tells that nothing at or before p is asked for again.
func (r *feedReader) settled(p store.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := sort.Search(len(r.found), func(i int) bool { return r.found[i].at > p })
	if n == 0 {
		return
	}
	r.passed = r.found[n-1].cursor
	for i := range r.found[:n] {
		r.bytes -= r.found[i].size()
	}
	r.found = append([]feedItem(nil), r.found[n:]...)
	if r.held && !r.full() {
		r.Ring()
	}
}

// Close implements [delivery.Reader].
func (r *feedReader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.present()
	r.unpark()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.asking {
		r.cancel() // and closes the source when it has ended
		return
	}
	r.src.Close()
}
