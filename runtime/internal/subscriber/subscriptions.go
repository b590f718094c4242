// Package subscriber keeps webhook subscriptions: it begins, refreshes, restores and ends them. Their
// records are the store's, their deliveries the engine's (package delivery), and what they are
// subscribed to is the server's ([eventtype.Type], [Host]); this is what ties the three together.
//
// Start at [Subscriptions]. Of the processes that serve a store, which may be one ([Cluster]), each owns parts of the
// subscriptions (sharing.go, part.go), takes them up from the one before it or as they are stored (takeup.go), and
// answers for all: ask.go begins, refreshes and removes. subscribe.go is what is asked for, start.go makes a
// subscription live, sync.go follows what other processes have changed, end.go and obsolete.go end, change.go follows
// the event types and the author's hooks, replay.go goes back for an operator, missed.go makes up for what was done to
// the others while one was not taken up. A subscription reads as a reader with a position: the type's own log
// (reader.go), or what a check found (feedreader.go).
package subscriber

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pulse"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Subscriptions are a server's webhook subscriptions. They are safe for concurrent use.
type Subscriptions struct {
	host     Host
	o        Options
	store    Records
	cluster  *Cluster
	guard    *netguard.Guard
	engine   *delivery.Engine
	verifier *verify.Verifier

	ctx   context.Context // ends with the server
	close context.CancelFunc
	// keys makes everything that begins or ends the subscription of an id one at a time.
	keys  keylock.Locks[string]
	tasks sync.WaitGroup // restoring and ending in the background

	restoring atomic.Int64 // event types of which some records were not tried yet

	reading chan struct{} // a place for each shard that is read
	syncs   syncQueue

	mu     sync.Mutex
	closed bool
	byID   map[string]*Live
	parts  map[engine.Shard]*part
	fans   map[eventtype.Type]*fanout
	counts map[string]int // of shards, by event type
}

// A Live is one live webhook subscription.
type Live struct {
	ID, Principal string
	Type          eventtype.Type
	Generation    uint64
	Handle        *delivery.Handle

	reader  boundReader
	charge  int // of its arguments, in bytes
	part    *part
	created int64 // Unix nanoseconds, as is refreshed

	// Guarded by Subscriptions.mu; as of the record that was seen last:
	refreshed int64
	schema    string
	dialect   wire.Dialect
	next      *Live // its later life, see replace
}

// Identity is how hooks of the author know it.
func (h *Live) Identity() eventtype.Subscription {
	return eventtype.Subscription{ID: h.ID, Principal: h.Principal, Event: h.Type.Name(), Mode: wire.ModeWebhook}
}

// CreatedAt is when it began.
func (h *Live) CreatedAt() time.Time { return time.Unix(0, h.created) }

// Arguments are those under the definition that it reads by.
func (h *Live) Arguments() eventtype.Arguments { return h.reader.latest() }

// New makes the service. What is stored is taken up by [Subscriptions.Own] and [Subscriptions.Serve].
func New(o Options) (*Subscriptions, error) {
	w := &Subscriptions{host: o.Host, o: o, store: o.Store, cluster: o.Cluster, guard: o.Guard, reading: make(chan struct{}, readers),
		byID: map[string]*Live{}, parts: map[engine.Shard]*part{}, fans: map[eventtype.Type]*fanout{}, counts: map[string]int{}}
	w.ctx, w.close = context.WithCancel(context.Background())
	records := admittedRecords{o.Store, engine.Quota{Own: max(o.Verify.PerPrincipal, 0), All: max(o.Verify.Total, 0)}}
	o.Verify.Now = w.Now
	var err error
	if w.verifier, err = verify.New(o.Verify, records, o.Guard); err != nil {
		return nil, err
	}
	d := o.Delivery
	d.Sender = o.Guard
	d.Ended, d.Gapped, d.Now = w.ended, w.gapped, w.Now
	if w.engine, err = delivery.New(d); err != nil {
		return nil, err
	}
	w.background(func() { w.verifier.Sweep(w.ctx, o.Log) })
	if o.Reauthorize > 0 {
		w.background(w.reauthorize)
	}
	return w, nil
}

// Waiting is the position up to which everything is settled, and how many entries of the log follow; ok is false where
// that means nothing.
func (h *Live) Waiting() (base store.Position, behind int64, ok bool) {
	if h.Type.Topic() == nil || h.Arguments().Def.Check() != nil {
		return 0, 0, false
	}
	head := h.Type.Topic().Head()
	base = h.Handle.Base()
	return base, max(int64(head)-int64(base), 0), true
}

// Restoring is of how many event types stored subscriptions wait to be tried for the first time since
// they were registered. One that cannot be restored, as when a hook of the author fails, is tried again
// and counts no more.
func (w *Subscriptions) Restoring() int { return int(w.restoring.Load()) }

// Lag is by how many entries the slowest live subscription of each event type is behind its log.
func (w *Subscriptions) Lag() map[string]int64 { return w.engine.Lag() }

// Pulse has the results of the attempts of the last hour.
func (w *Subscriptions) Pulse() *pulse.Recorder { return w.engine.Pulse() }

// Failing returns the ids of up to limit live subscriptions that are suspended or whose last attempt
// failed, and how many there are.
func (w *Subscriptions) Failing(limit int) (ids []string, total int) { return w.engine.Failing(limit) }

// Delivering is how many subscriptions the engine has.
func (w *Subscriptions) Delivering() int { return w.engine.Len() }

// Store is where the records are.
func (w *Subscriptions) Store() Records { return w.store }

// Flush waits until what has been delivered is stored.
func (w *Subscriptions) Flush(ctx context.Context) error { return w.engine.Flush(ctx) }

// Guard is the guard that judges callbacks.
func (w *Subscriptions) Guard() *netguard.Guard { return w.guard }

// A trimmingStore tells readers that keep what they found what they need not keep any more.
type trimmingStore struct {
	engine.Owned
	w *Subscriptions
}

func (t *trimmingStore) SaveProgress(ctx context.Context, updates []store.Update) error {
	return t.save(ctx, updates, func() error { return t.Owned.SaveProgress(ctx, updates) })
}

func (t *trimmingStore) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return t.save(ctx, updates, func() error { return t.Owned.SaveAttempts(ctx, updates, made) })
}

func (t *trimmingStore) save(ctx context.Context, updates []store.Update, save func() error) error {
	t.w.mu.Lock()
	var settled []func()
	for i := range updates {
		if h := t.w.byID[updates[i].ID]; h != nil && h.Generation == updates[i].Generation {
			if f, ok := h.reader.(*feedReader); ok {
				settled = append(settled, func() { f.settled(updates[i].Progress.Base) })
			}
		}
	}
	t.w.mu.Unlock()
	for _, f := range settled {
		f()
	}
	if t.w.o.Saved == nil {
		return save()
	}
	began := time.Now()
	err := save()
	t.w.o.Saved(ctx, time.Since(began), err)
	return err
}

// Get returns the live subscription of the id.
func (w *Subscriptions) Get(id string) *Live {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byID[id]
}

// Lock returns the live subscription of an id, which nobody else begins, refreshes or ends by request
// until unlock; without one it is NotFound. One that this process is to take up is taken up first.
func (w *Subscriptions) Lock(ctx context.Context, id string) (h *Live, unlock func(), err error) {
	if unlock, err = w.keys.Lock(ctx, id); err != nil {
		return nil, nil, err
	}
	if h = w.Get(id); h == nil {
		_, _, err = w.find(ctx, id)
		h = w.Get(id)
	}
	if h == nil {
		unlock()
		return nil, nil, cmp.Or(err, error(fault.NotFound("subscription")))
	}
	return h, unlock, nil
}

// Reach is the live subscription of an id as [Subscriptions.Lock] returns it, without a lock.
func (w *Subscriptions) Reach(ctx context.Context, id string) (*Live, error) {
	h, unlock, err := w.Lock(ctx, id)
	if err == nil {
		unlock()
	}
	return h, err
}

// Live is how many live subscriptions each event type has.
func (w *Subscriptions) Live() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for of, p := range w.parts {
		n[of.Topic] += len(p.live)
	}
	return n
}

// Each calls f for all live subscriptions that which picks.
func (w *Subscriptions) Each(which func(*Live) bool, f func(*Live)) int {
	w.mu.Lock()
	var all []*Live
	for _, h := range w.byID {
		if which(h) {
			all = append(all, h)
		}
	}
	w.mu.Unlock()
	for _, h := range all {
		f(h)
	}
	return len(all)
}

// enlist makes h live. False means that its shard has another owner.
func (w *Subscriptions) enlist(h *Live) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.part.closed {
		return false
	}
	h.part.live[h] = struct{}{}
	w.byID[h.ID] = h
	w.host.Keep(h.Principal, h.charge)
	return true
}

// charge is what is kept of a subscription's arguments, in bytes. What else is kept of one is of
// fixed size, and the quotas bound their number.
func (w *Subscriptions) charge(a eventtype.Arguments) int {
	n := a.Variable()
	if !w.o.Durable {
		n += len(a.Canonical()) // the record is in memory too
	}
	return n
}

// delist takes h out; false when it is not live any more.
func (w *Subscriptions) delist(h *Live) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[h.ID] != h {
		return false
	}
	delete(w.byID, h.ID)
	delete(h.part.live, h)
	if h.part.touched != nil {
		h.part.touched[h.ID] = true // its record may have been read already
	}
	w.host.Give(h.Principal, h.charge)
	return true
}

// background runs f unless the server is being shut down, which then waits for it.
func (w *Subscriptions) background(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.tasks.Go(f)
	return true
}

// newGeneration differs from the one before it, whatever the clock says.
func newGeneration() uint64 { return rand.Uint64() | 1 }

// gapped stores that the next subscribe response has a gap to report (D7).
func (w *Subscriptions) gapped(h *delivery.Handle) {
	ctx, cancel := finishing()
	defer cancel()
	var p *part
	if l := w.Get(h.ID()); l != nil {
		p = l.part
	}
	err := w.noteGap(ctx, h.ID(), h.Generation(), p)
	if p != nil && p.lost(err) {
		return
	}
	if err != nil {
		w.o.Log.Internal(ctx, "noting a gap of webhook subscription "+h.ID(), err)
	}
}

// noteGap stores that the next subscribe response has a gap to report, as the part's owner when there is a part,
// since the owner has lost something. A record that is gone has nothing to report.
func (w *Subscriptions) noteGap(ctx context.Context, id string, generation uint64, p *part) error {
	put := w.store.PutSubscription
	if p != nil {
		put = p.owned.PutSubscription
	}
	_, err := w.changeBy(ctx, put, id, func(r *store.Subscription) bool {
		if r.Generation != generation || r.Truncated {
			return false
		}
		r.Truncated = true
		return true
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// finishTime bounds a write whose caller may have gone.
const finishTime = 30 * time.Second

func finishing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), finishTime)
}

// errGone says that a record is not there.
var errGone = errors.New("the subscription has ended")

// change edits a record by compare-and-swap. It returns the record as it is then; edit returns
// false when there is nothing to change.
func (w *Subscriptions) change(ctx context.Context, id string, edit func(*store.Subscription) bool) (store.Subscription, error) {
	return w.changeBy(ctx, w.store.PutSubscription, id, edit)
}

func (w *Subscriptions) changeBy(ctx context.Context, put func(context.Context, store.Subscription) (uint64, error), id string,
	edit func(*store.Subscription) bool) (store.Subscription, error) {
	for {
		r, ok, err := w.store.Subscription(ctx, id)
		if err != nil {
			return r, err
		}
		if !ok {
			return r, errGone
		}
		if !edit(&r) {
			return r, nil
		}
		revision, err := put(ctx, r)
		if err == nil {
			r.Revision = revision
			return r, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return r, err
		}
	}
}

// Shutdown keeps what the store keeps for the next start, and ends the rest (SRV-6).
func (w *Subscriptions) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.close()
	err := w.engine.Shutdown(ctx)
	w.guard.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.tasks.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
	if !w.o.Durable {
		w.Each(func(*Live) bool { return true }, func(h *Live) {
			if w.delist(h) {
				w.leave(h)
			}
		})
	}
	return err
}

// leave ends the membership of an ended subscription (SRV-3).
func (w *Subscriptions) leave(h *Live) {
	w.host.Leave(h.Identity(), h.Arguments())
}
