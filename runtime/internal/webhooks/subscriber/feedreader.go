package subscriber

import (
	"context"
	"encoding/json"
	"sort"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A feedReader reads the feed of a check, with or without an emitter, for a webhook subscription. It numbers the
// occurrences and keeps them until they are settled, because it cannot fetch them twice. After a restart, it resumes
// from a cursor (CUR-1).
type feedReader struct {
	reading.Binding
	wakeup
	w *Subscriptions

	// pullMu is held while the source is pulled or closed. A parked source is not pulled.
	pullMu sync.Mutex
	src    reading.CheckSource

	mu     sync.Mutex
	args   eventtype.Arguments // bound to src
	found  []feedItem          // ascending, all unsettled
	bytes  int                 // size of found
	passed string              // cursor of the settled position
	head   store.Position
	last   string // cursor of head
	parked bool
	held   bool // parked without parking src, because found is full
	more   bool // the source has more occurrences ready
	closed bool
}

// A feedItem is an occurrence or a gap, together with its position.
type feedItem struct {
	at     store.Position
	o      topic.Outcome
	cursor string
	gap    bool
}

// Limits on the number and size in bytes of the unsettled occurrences of one subscription. After a limit has been
// reached, no more occurrences are read until some have been settled.
const (
	maxFound      = 2048
	MaxFoundBytes = 4 << 20
)

// isFull reports whether a limit has been reached. The caller must hold mu.
func (r *feedReader) isFull() bool { return len(r.found) >= maxFound || r.bytes >= MaxFoundBytes }

// addItem appends an item at the next position. The caller must hold mu.
func (r *feedReader) addItem(it feedItem) {
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

// openFeedReader opens a feedReader that starts at the cursor.
func (w *Subscriptions) openFeedReader(ctx context.Context, et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments, cursor string, later bool) (r *feedReader, truncated bool, err error) {
	r = &feedReader{w: w, passed: cursor, last: cursor, args: a, Binding: reading.Bind(et, a)}
	ctx = hook.WithPrincipal(ctx, sub.Principal)
	src, truncated, err := feed.Open(ctx, feed.Seat{Feeds: et.Feeds(), ID: sub.ID, Principal: sub.Principal, Bell: r},
		a.Def.Check(), a.Arguments, feed.Start{Replay: topic.Replay{Cursor: &cursor}, Head: et.Head(), Later: later})
	r.src = src
	return r, truncated, err
}

// resumeCursor returns the given cursor, or the cursor before the unsettled items if the given cursor belongs to one of
// them.
func (r *feedReader) resumeCursor(cursor string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := withoutProof(cursor)
	ahead := len(r.found) > 0 && at == withoutProof(r.last)
	for i := range r.found {
		ahead = ahead || withoutProof(r.found[i].cursor) == at
	}
	if ahead {
		return r.passed
	}
	return cursor
}

// withoutProof returns a copy of the cursor without its proof. Cursors that were issued while the store did not respond
// have no proof.
func withoutProof(cursor string) string {
	c, err := wire.ParseCursor(cursor)
	if err != nil {
		return cursor
	}
	c.Proof = 0
	return c.String()
}

// Read implements [delivery.Reader].
func (r *feedReader) Read(ctx context.Context, after store.Position, limit int) (delivery.Found, error) {
	if err := r.pull(hook.WithPrincipal(ctx, r.handle.Principal()), after); err != nil {
		return delivery.Found{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := delivery.Found{Upto: max(after, r.head), More: r.more && !r.isFull()}
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

// pull pulls the source, unless the reader already has items after the position or has reached a limit. The source does
// not wait for the check. A hanging check therefore does not block a worker of the engine (HOOK-4).
func (r *feedReader) pull(ctx context.Context, after store.Position) error {
	a, err := r.Current()
	r.pullMu.Lock()
	defer r.pullMu.Unlock()
	r.mu.Lock()
	wanted := err == nil && !r.closed && after >= r.head && !r.isFull()
	r.mu.Unlock()
	if !wanted {
		return nil
	}
	return r.pullSource(ctx, a)
}

// pullSource pulls the source and adds the results. The caller must hold pullMu.
func (r *feedReader) pullSource(ctx context.Context, a eventtype.Arguments) error {
	if r.args != a {
		r.src.Rebind(a.Def.Check(), a.Arguments)
		r.mu.Lock()
		r.args = a
		r.mu.Unlock()
	}
	p, err := r.src.Next(ctx, nil, topic.Batch(topic.PullBatch))
	for _, f := range p.Failed {
		r.w.o.Log.Internal(ctx, "checking "+a.Def.Kernel().Name, f) // a silent retry (PUSH-5)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return err
	}
	for i := range p.Out {
		r.addItem(feedItem{o: p.Out[i], cursor: cursorOrEmpty(p.Out[i].Cursor())})
	}
	r.last = cursorOrEmpty(r.src.Cursor())
	if p.Gap {
		r.addItem(feedItem{gap: true, cursor: r.last})
	}
	r.more = p.More
	return err
}

// cursorOrEmpty decodes a cursor from JSON. It returns "" for null.
func cursorOrEmpty(cursor []byte) (text string) {
	_ = json.Unmarshal(cursor, &text) // null leaves it empty
	return text
}

// Park implements [delivery.Reader].
func (r *feedReader) Park(after store.Position) bool {
	a, err := r.Current()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed || err != nil:
		return true
	case r.isFull():
		r.held, r.parked = true, true
		return true
	case after < r.head || r.args != a || r.more:
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
		return 0 // the items that arrived meanwhile are not read
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

// Cursor implements [delivery.Reader]. The cursor of the last position advances even without new occurrences (CUR-4).
// For a position before the stored items, Cursor returns the cursor up to which everything is settled.
func (r *feedReader) Cursor(p store.Position) *string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.passed
	if p == r.head {
		c = r.last
		if !r.closed {
			c = r.headCursor()
		}
	} else if i := sort.Search(len(r.found), func(i int) bool { return r.found[i].at > p }); i > 0 {
		c = r.found[i-1].cursor
	}
	return &c
}

// headCursor returns the cursor of the head, which advances even while the source is parked.
func (r *feedReader) headCursor() string {
	if r.parked && !r.held {
		r.src.Unpark()
		r.last = cursorOrEmpty(r.src.Cursor())
		if !r.src.Park() {
			r.Ring()
		}
	}
	return r.last
}

// dropSettled drops the items up to p, which are no longer needed.
func (r *feedReader) dropSettled(p store.Position) {
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
	if r.held && !r.isFull() {
		r.Ring()
	}
}

// Close implements [delivery.Reader].
func (r *feedReader) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.headCursor()
	r.unpark()
	r.closed = true
	r.mu.Unlock()
	r.pullMu.Lock()
	defer r.pullMu.Unlock()
	r.src.Close()
}
