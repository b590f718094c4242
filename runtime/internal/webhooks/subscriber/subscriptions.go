// Package subscriber creates, refreshes, restores and ends webhook subscriptions. It connects the store of their
// records, the engine that delivers to them (package delivery), and the server with its event types ([eventtype.Type],
// [Host]).
//
// Start at [Subscriptions]. One or more processes serve a store ([Cluster]). Each process owns some shards (cluster.go,
// ownedshard.go), restores their subscriptions from the records (restore.go) and answers requests for all subscriptions
// (subscribe.go). The file request.go parses requests, start.go makes a subscription live, and sync.go applies changes
// by other processes. The files end.go and obsolete.go end subscriptions. The file change.go handles changed event
// types and rechecks the author's hooks. The files operator.go, replay.go and resend.go perform operators' requests. The
// file revocation.go applies earlier revocations and gaps to restored subscriptions. A subscription reads the type's
// log (reader.go) or the occurrences of a check (feedreader.go).
package subscriber

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Subscriptions manages a server's webhook subscriptions. It is safe for concurrent use.
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
	// keys serializes the operations that create or end the subscription with a given id.
	keys  keylock.Locks[string]
	tasks sync.WaitGroup // restoring and ending in the background

	restoring atomic.Int64 // event types with records that were not tried

	reading chan struct{} // semaphore of the shards being read
	syncs   syncQueue

	mu          sync.Mutex
	closed      bool
	byID        map[string]*Live
	ownedShards map[engine.Shard]*ownedShard
	fans        map[eventtype.Type]*fanout
	counts      map[string]int // number of shards, by event type
	obsolete    map[string]int // ended subscriptions to report, by event type and reason

	// Recent actions of operators, which also apply to subscriptions that become live later.
	revoked map[string][]knownRevocation     // by principal
	gaps    map[string]store.ControlPosition // by event type
	swept   time.Time                        // time of the last removal of old entries
}

// A Live is one live webhook subscription.
type Live struct {
	Handle *delivery.Handle

	reader     boundReader
	charge     int // for its arguments, in bytes
	ownedShard *ownedShard
	admitted   store.ControlPosition
	created    int64 // Unix nanoseconds, like refreshed

	requests map[store.RequestKind]*knownRequest // guarded by Subscriptions.mu

	// Guarded by Subscriptions.mu; values of the record that was read last:
	revision  uint64
	refreshed int64
	schema    string
	dialect   wire.Dialect
	next      *Live         // the life that replaced this one, see startNewLife
	reason    *events.Error // given to End; nil if End was not called

	gaps store.ControlPosition // gaps up to it have been signaled; guarded by Subscriptions.mu
}

// ID returns the subscription's id.
func (h *Live) ID() string { return h.Handle.ID() }

// Principal returns the owner of the subscription.
func (h *Live) Principal() string { return h.Handle.Principal() }

// Type returns the event type.
func (h *Live) Type() eventtype.Type { return h.ownedShard.et }

// Identity returns the subscription as it is described to the author's hooks.
func (h *Live) Identity() eventtype.Subscription {
	return eventtype.Subscription{ID: h.ID(), Principal: h.Principal(), Event: h.Type().Name(), Mode: wire.ModeWebhook}
}

// CreatedAt returns the time at which the subscription was created.
func (h *Live) CreatedAt() time.Time { return time.Unix(0, h.created) }

// Arguments returns the arguments, parsed for the definition that the reader currently uses.
func (h *Live) Arguments() eventtype.Arguments { return h.reader.Arguments() }

// New creates Subscriptions. [Subscriptions.Own] and [Subscriptions.Serve] restore the stored subscriptions.
func New(o Options) (*Subscriptions, error) {
	w := &Subscriptions{host: o.Host, o: o, store: o.Store, cluster: o.Cluster, guard: o.Guard, reading: make(chan struct{}, maxShardReads),
		byID: map[string]*Live{}, ownedShards: map[engine.Shard]*ownedShard{}, fans: map[eventtype.Type]*fanout{}, counts: map[string]int{}, obsolete: map[string]int{}}
	w.ctx, w.close = context.WithCancel(context.Background())
	records := admittedRecords{o.Store, engine.Quota{Own: max(o.Verify.PerPrincipal, 0), All: max(o.Verify.Total, 0)}}
	o.Verify.Now = w.Now
	var err error
	if w.verifier, err = verify.New(o.Verify, records, o.Guard); err != nil {
		return nil, err
	}
	d := o.Delivery
	d.Sender, d.Timeout = o.Guard, o.Guard.Timeout()
	d.Ended, d.Gapped, d.Now, d.Owner = w.handleEnded, w.storeGap, w.Now, o.Cluster.Name
	if w.engine, err = delivery.New(d); err != nil {
		return nil, err
	}
	w.runInBackground(func() { w.verifier.Sweep(w.ctx, o.Log) })
	if o.Reauthorize > 0 {
		w.runInBackground(w.reauthorize)
	}
	return w, nil
}

// Restoring returns the number of registered event types with stored subscriptions that this process has not yet tried
// to restore. A subscription whose restoration fails, for example because of a hook, is retried but not counted.
func (w *Subscriptions) Restoring() int { return int(w.restoring.Load()) }

// Census returns the current values of the engine.
func (w *Subscriptions) Census() delivery.Census { return w.engine.Census() }

// Delivering returns the number of subscriptions in the engine.
func (w *Subscriptions) Delivering() int { return w.engine.Len() }

// Store returns the store of the records.
func (w *Subscriptions) Store() Records { return w.store }

// Flush waits until the progress of deliveries is stored.
func (w *Subscriptions) Flush(ctx context.Context) error { return w.engine.Flush(ctx) }

// Guard returns the guard that checks callbacks.
func (w *Subscriptions) Guard() *netguard.Guard { return w.guard }

// When a trimmingStore stores progress, it drops the items that the progress settles from the feed readers.
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
		if h := t.w.byID[updates[i].ID]; h != nil && h.Handle.Generation() == updates[i].Generation {
			if f, ok := h.reader.(*feedReader); ok {
				settled = append(settled, func() { f.dropSettled(updates[i].Progress.Base) })
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

// Get returns the live subscription with the id, or nil if it is not live.
func (w *Subscriptions) Get(id string) *Live {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byID[id]
}

// Each calls f for all live subscriptions for which the function which returns true. It returns the number of calls to
// f.
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

// addLive makes h live. If earlier is not nil, h replaces it. addLive returns [errShardClosed] if the shard has another
// owner, and [errNoRecord] if earlier has ended.
func (w *Subscriptions) addLive(h, earlier *Live) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case h.ownedShard.closed:
		return errShardClosed
	case earlier == nil:
		w.host.Keep(h.Principal(), h.charge)
	case w.byID[h.ID()] != earlier:
		return errNoRecord
	default:
		h.charge, h.requests, h.gaps, earlier.next = earlier.charge, earlier.requests, earlier.gaps, h
		delete(h.ownedShard.live, earlier)
	}
	h.ownedShard.live[h] = struct{}{}
	w.byID[h.ID()] = h
	return nil
}

// argumentsSize returns the memory used by a subscription's arguments, in bytes. The rest of a subscription has a fixed
// size, and the quotas limit the number of subscriptions.
func (w *Subscriptions) argumentsSize(a eventtype.Arguments) int {
	n := a.Variable()
	if !w.o.Durable {
		n += len(a.Canonical()) // the record is also in memory
	}
	return n
}

// runInBackground runs f in a goroutine that Shutdown waits for. It returns false if the server is shutting down.
func (w *Subscriptions) runInBackground(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.tasks.Go(f)
	return true
}

// newGeneration returns a random generation. It differs from earlier generations even if the clock is set back.
func newGeneration() uint64 { return rand.Uint64() | 1 }

// storeGap records that the next subscribe response must report a gap (D7). The engine calls it.
func (w *Subscriptions) storeGap(h *delivery.Handle) {
	ctx, cancel := finishContext()
	defer cancel()
	var p *ownedShard
	var signaled store.ControlPosition
	if l := w.Get(h.ID()); l != nil {
		w.mu.Lock()
		p, signaled = l.ownedShard, l.gaps
		w.mu.Unlock()
	}
	err := w.setTruncated(ctx, h.ID(), h.Generation(), p, signaled)
	if p != nil && p.checkFenced(err) {
		return
	}
	if err != nil {
		w.o.Log.Internal(ctx, "storing a gap of webhook subscription "+h.ID(), err)
	}
}

// setTruncated sets Truncated in the record, so the next subscribe response reports a gap, and the position of the latest
// gap of the event type that is signaled. If p is non-nil, it writes as the owner of the shard. It does nothing if the
// record no longer exists.
func (w *Subscriptions) setTruncated(ctx context.Context, id string, generation uint64, p *ownedShard, signaled store.ControlPosition) error {
	put := w.store.PutSubscription
	if p != nil {
		put = p.owned.PutSubscription
	}
	_, err := w.editRecordWith(ctx, put, id, func(r *store.Subscription) bool {
		q := r.Requests[store.RequestGap]
		if r.Generation != generation || r.Truncated && q.Signaled.Compare(signaled) >= 0 {
			return false
		}
		if r.Truncated = true; signaled.Compare(q.Signaled) > 0 {
			q.Signaled = signaled
			setRequest(r, store.RequestGap, q)
		}
		return true
	})
	if errors.Is(err, errNoRecord) {
		return nil
	}
	return err
}

// finishTime is the timeout of a write that must finish even if the caller's context is done.
const finishTime = 30 * time.Second

func finishContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), finishTime)
}

// errNoRecord is returned if a record does not exist.
var errNoRecord = errors.New("the subscription has ended")

// editRecord edits a record by compare-and-swap and returns the resulting record. If edit returns false, the record is
// left unchanged.
func (w *Subscriptions) editRecord(ctx context.Context, id string, edit func(*store.Subscription) bool) (store.Subscription, error) {
	return w.editRecordWith(ctx, w.store.PutSubscription, id, edit)
}

func (w *Subscriptions) editRecordWith(ctx context.Context, put func(context.Context, store.Subscription) (uint64, error), id string,
	edit func(*store.Subscription) bool) (store.Subscription, error) {
	for {
		r, ok, err := w.store.Subscription(ctx, id)
		if err != nil {
			return r, err
		}
		if !ok {
			return r, errNoRecord
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

// Shutdown stops deliveries. Subscriptions in a durable store continue after the next start. Other subscriptions end
// (SRV-6).
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
		w.Each(func(*Live) bool { return true }, func(h *Live) { w.endLive(ctx, h, endStopped) })
	}
	return err
}
