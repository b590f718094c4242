package subscriber

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Sharing is what subscriptions need of the server where several processes serve one store: each
// delivers to those of the shards that it owns, and any answers for all (REP-6, REP-11).
type Sharing struct {
	Store store.Shared
	// Now is the store's time, in which everything is stored and signed (REP-8).
	Now func() time.Time
	// Heard reports whether it is known up to a moment ago what the other processes have done. Without
	// that no attempt begins (REP-11).
	Heard func() bool
	// Tell tells the owner of the shard that a record was made, changed or deleted; the zero shard
	// stands for an unknown one.
	Tell func(ctx context.Context, id string, of store.Shard) error
	// Orders reads what operators have ordered for the shard and its owners may not have done (REP-13).
	// none tells that the shard has no subscriptions, for which nothing can have been ordered.
	Orders func(ctx context.Context, owned store.OwnedStore, none bool) (Orders, error)
	// Obsolete is the error with which a subscription ends whose arguments were accepted under the
	// schemas of that fingerprint; nil while it goes on (REP-16).
	Obsolete func(event, schema string) *events.Error
	// Shards is how many a new event type gets.
	Shards int
}

// Orders are what operators have ordered for the subscriptions of a shard that is taken up.
type Orders interface {
	// Ends is the error with which the subscription is to end; nil for none.
	Ends(r *store.Subscription) *events.Error
	// Finish does the rest to the live ones that pick picks, with what was ordered since.
	Finish(ctx context.Context, pick func(*Live) bool) error
	// Mark stores how far orders are done; now and then, or at once.
	Mark(ctx context.Context, owned store.OwnedStore, atOnce bool) error
}

// A Tenure is the time for which this process owns a shard; see package shard.
type Tenure interface {
	Hold() store.Hold
	Context() context.Context
	Draining() <-chan struct{}
	Valid() bool
	Fenced()
}

// A part is a shard that this process owns, with its live subscriptions.
type part struct {
	w      *Subscriptions
	tenure Tenure
	et     EventType
	owned  store.OwnedStore
	shard  *delivery.Shard

	// Under Subscriptions.mu:
	log     *delivery.Log // nil until it is open, and for a check
	open    bool          // subscriptions can be started
	closed  bool
	live    map[string]*Live
	touched map[string]bool   // records told of while they were restored; nil afterwards
	left    map[string]string // records that this build cannot read: their schemas
	orders  Orders
}

// An ownership is what is known of a live subscription of a part, beside what a [Live] has.
type ownership struct {
	part    *part
	created time.Time

	// Under Subscriptions.mu: as of the record that was seen last.
	refreshed time.Time
	schema    string
}

// Ours reports whether this process is certainly the one that delivers to the subscription.
func (h *Live) Ours() bool { return h.own == nil || h.own.part.tenure.Valid() }

// BegunAfter reports whether the subscription began after t, of which a store that several processes
// share tells.
func (h *Live) BegunAfter(t time.Time) bool { return h.own != nil && h.own.created.After(t) }

// now is the time that everything is stored in.
func (w *Subscriptions) now() time.Time {
	if w.sharing != nil {
		return w.sharing.Now()
	}
	return time.Now()
}

// Now is the time in which records are.
func (w *Subscriptions) Now() time.Time { return w.now() }

// Shared tells that other processes deliver to subscriptions of the store.
func (w *Subscriptions) Shared() bool { return w.sharing != nil }

// partOf is the part of a shard if subscriptions can be started in it.
func (w *Subscriptions) partOf(s store.Shard) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.parts[s]; p != nil && p.open && !p.closed {
		return p
	}
	return nil
}

// lookPause is how often an owner looks whether a type that nobody serves is registered.
const lookPause = 500 * time.Millisecond

// orderPause is how often it is looked whether orders were done that are not marked.
const orderPause = time.Second

// Own delivers to the subscriptions of a shard for as long as this process owns it. It returns when
// everything is concluded and stored, or when the shard is lost.
func (w *Subscriptions) Own(t Tenure) {
	et, ok := w.host.Type(t.Hold().Shard.Topic)
	if !ok || et.Current() == nil || !et.Current().Webhooks() {
		w.ownOrphans(t)
		return
	}
	p := w.newPart(t, et)
	if p == nil {
		return // the server ends
	}
	defer p.forget()
	w.background(p.restore)
	tick := time.NewTicker(orderPause)
	defer tick.Stop()
	compared := time.Now().Add(rand.N(compareEvery / 2)) // not all at once
	for {
		select {
		case <-t.Context().Done():
			p.close()
			p.shard.Drop()
			return
		case <-t.Draining():
			p.close()
			if err := p.shard.Drain(t.Context()); err != nil && t.Context().Err() == nil {
				w.o.Log.Internal(t.Context(), "giving "+t.Hold().Shard.String()+" away", err)
			}
			return
		case <-tick.C:
			p.mark(false)
			if time.Since(compared) >= compareEvery {
				compared = time.Now()
				w.background(func() {
					if err := p.compare(t.Context()); err != nil && t.Context().Err() == nil {
						w.o.Log.Internal(t.Context(), "comparing "+t.Hold().Shard.String()+" with what is stored", err)
					}
				})
			}
		}
	}
}

func (w *Subscriptions) newPart(t Tenure, et EventType) *part {
	p := &part{w: w, tenure: t, et: et, owned: w.sharing.Store.Owned(t.Hold()), live: map[string]*Live{},
		touched: map[string]bool{}, left: map[string]string{}}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: &trimmingStore{p.owned, w}, Fenced: t.Fenced,
		May: func() bool { return w.sharing.Heard() && t.Valid() }})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		p.shard.Drop()
		return nil
	}
	w.parts[t.Hold().Shard] = p
	return p
}

// close lets nothing more begin in the part.
func (p *part) close() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.closed = true
}

// forget takes the part's subscriptions out: they go on elsewhere.
func (p *part) forget() {
	w := p.w
	w.mu.Lock()
	p.closed = true
	delete(w.parts, p.tenure.Hold().Shard)
	live := slices.Collect(maps.Values(p.live))
	log := p.log
	w.mu.Unlock()
	if log != nil {
		w.unfollow(p.et, log)
	}
	for _, h := range live {
		if w.delist(h) {
			h.Handle.Remove()
			w.host.Release(h.Identity(), h.Arguments())
		}
	}
}

// lost tells whether a write was fenced, and ends the tenure then.
func (p *part) lost(err error) bool {
	if errors.Is(err, store.ErrFenced) {
		p.tenure.Fenced()
		return true
	}
	return false
}

// deleteLapsed takes the record of a subscription away whose time is over, unless another process has
// prolonged it since r was read: then the error is [errAgain]. Who refreshes it compares and swaps, and so
// does this before it deletes.
func (p *part) deleteLapsed(ctx context.Context, r *store.Subscription) error {
	revision, err := p.owned.PutSubscription(ctx, *r)
	switch {
	case errors.Is(err, store.ErrConflict):
		return errAgain
	case err != nil:
		return err
	}
	r.Revision = revision
	return p.owned.DeleteSubscription(ctx, r.ID, r.Generation)
}

// lapseShared ends a subscription that the engine has found expired, and that is not live any more. It may
// have been refreshed at another process, of which this one has not heard yet.
func (w *Subscriptions) lapseShared(ctx context.Context, h *Live) {
	for range maxRounds {
		r, ok, err := w.store.Subscription(ctx, h.ID)
		if err == nil && ok && r.Generation == h.Generation {
			if !Lapsed(&r, w.now()) {
				w.host.Release(h.Identity(), h.Arguments())
				w.Changed(h.ID, inShard(&r))
				return
			}
			if err = h.own.part.deleteLapsed(ctx, &r); errors.Is(err, errAgain) {
				continue
			}
		}
		if err != nil {
			if !h.own.part.lost(err) {
				w.o.Log.Internal(ctx, "ending webhook subscription "+h.ID, err)
			}
			w.host.Release(h.Identity(), h.Arguments())
			w.Changed(h.ID, h.own.part.tenure.Hold().Shard)
			return
		}
		w.leave(h)
		w.tell(ctx, "webhook subscription expires", h)
		return
	}
}

// compareEvery is how often an owner compares what is live with what is stored: a process may have died
// between a change and telling of it.
const compareEvery = 2 * time.Minute

// compare has the records looked at that are not what is live.
func (p *part) compare(ctx context.Context) error {
	w, of := p.w, p.tenure.Hold().Shard
	w.mu.Lock()
	live := maps.Clone(p.live)
	restored := p.touched == nil
	w.mu.Unlock()
	if !restored {
		return nil
	}
	for after := ""; ; {
		page, err := p.owned.Subscriptions(ctx, after, loadPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		w.mu.Lock()
		var changed []string
		for i := range page {
			r := &page[i]
			after = r.ID
			h := live[r.ID]
			delete(live, r.ID)
			left, aside := p.left[r.ID]
			switch {
			case h == nil && aside && left == r.Schema:
			case h == nil, h.Generation != r.Generation, h.own.refreshed.Before(r.RefreshedAt), h.Handle.Paused() == r.PausedAt.IsZero():
				changed = append(changed, r.ID)
			}
		}
		w.mu.Unlock()
		for _, id := range changed {
			w.Changed(id, of)
		}
	}
	for id := range live {
		w.Changed(id, of)
	}
	return nil
}

// mark stores how far operators' orders are done.
func (p *part) mark(atOnce bool) {
	p.w.mu.Lock()
	orders, restored := p.orders, p.touched == nil
	p.w.mu.Unlock()
	if orders == nil || !restored {
		return
	}
	ctx, cancel := context.WithTimeout(p.tenure.Context(), finishTime)
	defer cancel()
	if err := orders.Mark(ctx, p.owned, atOnce); err != nil && !p.lost(err) && ctx.Err() == nil {
		p.w.o.Log.Internal(ctx, "storing which orders are done", err)
	}
}

// A fanout tells the logs of the shards that this process owns of appends.
type fanout struct {
	logs atomic.Pointer[[]*delivery.Log]
}

// Advanced implements [topic.Advancing].
func (f *fanout) Advanced() {
	if all := f.logs.Load(); all != nil {
		for _, l := range *all {
			l.Advanced()
		}
	}
}

// follow has the log told of appends to the type's.
func (w *Subscriptions) follow(et EventType, l *delivery.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fans[et]
	if f == nil {
		f = &fanout{}
		w.fans[et] = f
		et.Topic().Advancing(f)
	}
	var all []*delivery.Log
	if old := f.logs.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, l)
	f.logs.Store(&all)
}

func (w *Subscriptions) unfollow(et EventType, l *delivery.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fans[et]
	if f == nil || f.logs.Load() == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*f.logs.Load()), func(o *delivery.Log) bool { return o == l })
	f.logs.Store(&all)
}

// ownOrphans ends the subscriptions of a shard whose event type no process has registered for a time
// (EVOL-1), and gives the shard up when this one registers it.
func (w *Subscriptions) ownOrphans(t Tenure) {
	p := &part{w: w, tenure: t, owned: w.sharing.Store.Owned(t.Hold())}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: p.owned, Fenced: t.Fenced, May: t.Valid})
	defer func() {
		if t.Valid() {
			_ = p.shard.Drain(t.Context()) // nothing is kept of it
		} else {
			p.shard.Drop()
		}
	}()
	for after, pause := "", time.Duration(0); ; {
		select {
		case <-t.Context().Done():
			return
		case <-t.Draining():
			return
		case <-time.After(pause):
		}
		if et, ok := w.host.Type(t.Hold().Shard.Topic); ok && et.Current() != nil && et.Current().Webhooks() {
			return
		}
		page, err := p.owned.Subscriptions(t.Context(), after, loadPage)
		for i := range page {
			if err == nil {
				err = w.endRecord(t.Context(), p, &page[i], w.orphaned(t.Hold().Shard.Topic))
				after = page[i].ID
			}
		}
		pause = lookPause
		if err == nil && len(page) > 0 {
			pause = 0
		}
		if err != nil && !p.lost(err) {
			w.o.Log.Internal(t.Context(), "ending the subscriptions of "+t.Hold().Shard.String(), err)
			pause = restorePause
		}
	}
}

// orphaned is what a subscription ends with whose event type nobody serves by webhook.
func (w *Subscriptions) orphaned(event string) *events.Error {
	if et, ok := w.host.Type(event); ok && et.Current() != nil {
		return fault.UnsupportedMode(wire.ModeWebhook)
	}
	return fault.NotFound("event")
}

// Review ends the subscriptions that no build understands any more (REP-16, EVOL-2).
func (w *Subscriptions) Review(et EventType) {
	if w == nil || w.sharing == nil {
		return
	}
	type ending struct {
		h *Live
		e *events.Error
	}
	var over []ending
	type aside struct {
		p  *part
		id string
	}
	var left []aside
	reasons := map[string]*events.Error{}
	reason := func(schema string) *events.Error {
		e, ok := reasons[schema]
		if !ok {
			e = w.sharing.Obsolete(et.Name(), schema)
			reasons[schema] = e
		}
		return e
	}
	w.mu.Lock()
	var schemas []string
	for _, p := range w.parts {
		if p.et != et {
			continue
		}
		for _, h := range p.live {
			if !slices.Contains(schemas, h.own.schema) {
				schemas = append(schemas, h.own.schema)
			}
		}
		for _, s := range p.left {
			if !slices.Contains(schemas, s) {
				schemas = append(schemas, s)
			}
		}
	}
	w.mu.Unlock()
	obsolete := false
	for _, s := range schemas {
		obsolete = reason(s) != nil || obsolete
	}
	if !obsolete {
		return
	}
	w.mu.Lock()
	for _, p := range w.parts {
		if p.et != et {
			continue
		}
		for _, h := range p.live {
			if e := reasons[h.own.schema]; e != nil {
				over = append(over, ending{h, e})
			}
		}
		for id, s := range p.left {
			if reasons[s] != nil {
				left = append(left, aside{p, id})
			}
		}
	}
	w.mu.Unlock()
	for _, o := range over {
		w.End(o.h, o.e)
	}
	for _, a := range left {
		w.endLeft(a.p, a.id, reason)
	}
}

// endLeft ends a record that was left to other builds, of which none is there any more.
func (w *Subscriptions) endLeft(p *part, id string, reason func(schema string) *events.Error) {
	unlock, err := w.keys.Lock(w.ctx, id)
	if err != nil {
		return
	}
	defer unlock()
	r, ok, err := w.store.Subscription(w.ctx, id)
	if err != nil {
		w.o.Log.Internal(w.ctx, "ending webhook subscription "+id, err)
		return
	}
	if ok {
		e := reason(r.Schema)
		if e == nil {
			return // it was refreshed at another build meanwhile
		}
		if err := w.endRecord(w.ctx, p, &r, e); err != nil && !p.lost(err) {
			w.o.Log.Internal(w.ctx, "ending webhook subscription "+id, err)
			return
		}
	}
	w.mu.Lock()
	delete(p.left, id)
	w.mu.Unlock()
}

// A syncQueue are the ids of records to be looked at again, each once.
type syncQueue struct {
	mu      sync.Mutex
	waiting map[string]store.Shard
	order   []string
	workers int
}

// Settled is how many shards of the type this process owns and has read.
func (w *Subscriptions) Settled(event string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, p := range w.parts {
		if of.Topic == event && !p.closed && p.touched == nil {
			n++
		}
	}
	return n
}
