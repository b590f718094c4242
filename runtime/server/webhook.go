package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// webhooks are a server's webhook subscriptions: their records are the store's, their deliveries
// the engine's, and this is what ties both to the event types. subscribe.go begins and refreshes
// them, restore.go takes them up at a start, unsubscribe.go ends them.
type webhooks struct {
	server   *Server
	o        WebhookOptions
	store    store.SubscriptionStore
	attempts store.AttemptStore // nil where none are kept
	guard    *netguard.Guard
	engine   *delivery.Engine
	verifier *verify.Verifier

	ctx   context.Context // ends with the server
	close context.CancelFunc
	// keys makes everything that begins or ends the subscription of an id one at a time.
	keys  keylock.Locks[string]
	tasks sync.WaitGroup // restoring and ending in the background

	mu      sync.Mutex
	byID    map[string]*subscription
	owned   map[string]int     // subscriptions of a principal, places taken included
	total   int                // the same of all
	pending map[string]waiting // by id
	orphans *time.Timer
	closed  bool
	logs    map[*eventType]*delivery.Log
}

// A subscription is one live webhook subscription.
type subscription struct {
	id, principal, url string
	et                 *eventType
	generation         uint64
	handle             *delivery.Handle
	reader             webhookReader
	charge             int // of its arguments, in bytes

	// Guarded by webhooks.mu:
	dialect wire.Dialect
	next    *subscription // its later life, see replace
}

// sub is how hooks of the author know it.
func (h *subscription) sub() Subscription {
	return Subscription{ID: h.id, Principal: h.principal, Event: h.et.name, Mode: wire.ModeWebhook}
}

// newWebhooks makes the service, or says which option cannot be used.
func newWebhooks(ctx context.Context, s *Server) (*webhooks, error) {
	st := s.options.Store
	o, err := s.options.Webhook.withDefaults(st)
	if err != nil {
		return nil, err
	}
	subs, ok := st.(store.SubscriptionStore)
	if !ok {
		return nil, errors.New("webhooks: Options.Store keeps no subscriptions (store.SubscriptionStore)")
	}
	w := &webhooks{server: s, o: o, store: subs, byID: map[string]*subscription{}, owned: map[string]int{},
		pending: map[string]waiting{}, logs: map[*eventType]*delivery.Log{}}
	w.ctx, w.close = context.WithCancel(context.Background())
	if w.guard, err = netguard.New(netguard.Options(w.o.Callbacks)); err != nil {
		return nil, err
	}
	w.verifier, err = verify.New(verify.Options{Limits: verify.Limits(o.Verify), Allow: o.AllowReceivers, Identity: o.Identity, Meter: s.options.meter()}, subs, w.guard)
	if err != nil {
		return nil, err
	}
	d := w.o.Retry.engine(s.options.Logger, s.options.Meter, s.options.Tracer)
	d.Sender, d.Store, d.Identity = w.guard, &trimmingStore{subs, w}, w.o.Identity
	d.Ended, d.Gapped = w.ended, w.gapped
	if attempts, ok := st.(store.AttemptStore); ok && o.Attempts.PerSubscription > 0 {
		w.attempts = attempts
		d.Attempts, d.AttemptBounds = attempts, store.AttemptBounds(o.Attempts)
	}
	if w.engine, err = delivery.New(d); err != nil {
		return nil, err
	}
	if err := w.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("webhooks: reading the stored subscriptions: %w", err), w.engine.Shutdown(ctx))
	}
	w.background(func() { w.verifier.Sweep(w.ctx, &s.log) })
	return w, nil
}

// A trimmingStore tells readers that keep what they found what they need not keep any more.
type trimmingStore struct {
	store.SubscriptionStore
	w *webhooks
}

func (t *trimmingStore) SaveProgress(ctx context.Context, updates []store.Update) error {
	t.w.mu.Lock()
	var settled []func()
	for i := range updates {
		if h := t.w.byID[updates[i].ID]; h != nil && h.generation == updates[i].Generation {
			if f, ok := h.reader.(*webhookFeed); ok {
				settled = append(settled, func() { f.settled(updates[i].Progress.Base) })
			}
		}
	}
	t.w.mu.Unlock()
	for _, f := range settled {
		f()
	}
	return t.SubscriptionStore.SaveProgress(ctx, updates)
}

// get returns the live subscription of the id.
func (w *webhooks) get(id string) *subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byID[id]
}

// each calls f for all live subscriptions that which picks.
func (w *webhooks) each(which func(*subscription) bool, f func(*subscription)) int {
	w.mu.Lock()
	var all []*subscription
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

// reserve takes a place in the quotas (SUB-8).
func (w *webhooks) reserve(principal string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.o.Quota.PerPrincipal; n >= 0 && w.owned[principal] >= n {
		return fault.Exhausted("subscriptions", n)
	}
	if n := w.o.Quota.Total; n >= 0 && w.total >= n {
		return fault.Exhausted("subscriptions", n)
	}
	w.occupy(principal, 1)
	return nil
}

// occupy changes the counts; the caller holds mu.
func (w *webhooks) occupy(principal string, n int) {
	w.total += n
	if w.owned[principal] += n; w.owned[principal] <= 0 {
		delete(w.owned, principal)
	}
}

func (w *webhooks) giveBack(principal string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.occupy(principal, -1)
}

// enlist makes h live; its place in the quotas is taken already.
func (w *webhooks) enlist(h *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byID[h.id] = h
	w.server.holdings.restore(h.principal, h.charge)
}

// charge is what is kept of a subscription's arguments, in bytes. What else is kept of one is of
// fixed size, and the quotas bound their number.
func (w *webhooks) charge(a arguments) int {
	n := a.Variable()
	if !w.server.options.Store.Durable() {
		n += len(a.Canonical()) // the record is in memory too
	}
	return n
}

// delist takes h out and gives its place back; false when it is not live any more.
func (w *webhooks) delist(h *subscription) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[h.id] != h {
		return false
	}
	delete(w.byID, h.id)
	w.occupy(h.principal, -1)
	w.server.holdings.give(h.principal, h.charge)
	return true
}

// background runs f unless the server is being shut down, which then waits for it.
func (w *webhooks) background(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.tasks.Add(1)
	go func() {
		defer w.tasks.Done()
		f()
	}()
}

// newGeneration differs from the one before it, whatever the clock says.
func newGeneration() uint64 { return rand.Uint64() | 1 }

// gapped stores that the next subscribe response has a gap to report (D7).
func (w *webhooks) gapped(h *delivery.Handle) {
	ctx, cancel := w.server.hookContext(hookTime)
	defer cancel()
	_, err := w.change(ctx, h.ID(), func(r *store.Subscription) bool {
		if r.Generation != h.Generation() || r.Truncated {
			return false
		}
		r.Truncated = true
		return true
	})
	if err != nil && !errors.Is(err, errGone) {
		w.server.log.Internal(ctx, "noting a gap of webhook subscription "+h.ID(), err)
	}
}

// errGone says that a record is not there.
var errGone = errors.New("the subscription has ended")

// change edits a record by compare-and-swap. It returns the record as it is then; edit returns
// false when there is nothing to change.
func (w *webhooks) change(ctx context.Context, id string, edit func(*store.Subscription) bool) (store.Subscription, error) {
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
		revision, err := w.store.PutSubscription(ctx, r)
		if err == nil {
			r.Revision = revision
			return r, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return r, err
		}
	}
}

// open makes the type's log known to the engine where its positions outlive the process; fresh is
// not nil when that is news.
func (w *webhooks) open(ctx context.Context, et *eventType) (fresh *delivery.Log, err error) {
	d := et.current()
	if d == nil || !d.webhooks() || d.check != nil || d.info.NoReplay || w.logOf(et) != nil {
		return nil, nil
	}
	t := et.topic
	fresh, err = w.engine.OpenLog(ctx, et.name, t.Head)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.logs[et] = fresh
	w.mu.Unlock()
	t.Advancing(fresh)
	return fresh, nil
}

// closeLog is open's counterpart for a type that is removed.
func (w *webhooks) closeLog(et *eventType) {
	w.mu.Lock()
	l := w.logs[et]
	delete(w.logs, et)
	w.mu.Unlock()
	if l != nil {
		et.topic.Advancing(nil)
		l.Close()
	}
}

// logOf is what progress of the type's subscriptions counts in; nil for a feed.
func (w *webhooks) logOf(et *eventType) *delivery.Log {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs[et]
}

// shutdown keeps what the store keeps for the next start, and ends the rest (SRV-6).
func (w *webhooks) shutdown(ctx context.Context) error {
	w.mu.Lock()
	if w.orphans != nil {
		w.orphans.Stop()
	}
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
	if !w.server.options.Store.Durable() {
		w.each(func(*subscription) bool { return true }, func(h *subscription) {
			if w.delist(h) {
				w.leave(h)
			}
		})
	}
	return err
}

// leave ends the membership of an ended subscription (SRV-3).
func (w *webhooks) leave(h *subscription) {
	w.server.members.leave(h.sub(), h.reader.latest())
}
