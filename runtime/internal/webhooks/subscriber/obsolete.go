package subscriber

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ownOrphans ends the subscriptions of a shard if no process has registered its event type for some time (EVOL-1). It
// gives up the shard if this process registers the type. If once is true, no other process serves the store, and
// ownOrphans returns after all subscriptions have ended.
func (w *Subscriptions) ownOrphans(t Ownership, once bool) {
	of := w.orphansOf(t)
	defer of.giveUp()
	for pause := time.Duration(0); ; {
		select {
		case <-w.ctx.Done():
			return
		case <-t.Context().Done():
			return
		case <-t.Draining():
			return
		case <-time.After(pause):
		}
		if w.isServed(t.ShardFence().Shard) {
			return
		}
		pause = lookPause
		if of.endAll() != nil {
			pause = restorePause
		} else if once {
			return
		}
	}
}

// EndOrphans ends the subscriptions of a shard with an unregistered event type in the background. It must only be called
// if no other process serves the store.
func (w *Subscriptions) EndOrphans(t Ownership) {
	w.runInBackground(func() { w.ownOrphans(t, true) })
}

// isServed reports whether this process has registered the shard's event type with webhooks, or has started
// subscriptions in the shard.
func (w *Subscriptions) isServed(of engine.Shard) bool {
	if w.ownedShardOf(of) != nil {
		return true
	}
	et, ok := w.host.Type(of.Topic)
	return ok && et.Current() != nil && et.Current().Webhooks()
}

// An orphanedShard is a shard with an event type that no process serves.
type orphanedShard struct{ *ownedShard }

func (w *Subscriptions) orphansOf(t Ownership) orphanedShard {
	p := &ownedShard{w: w, ownership: t, owned: w.store.Owned(t.ShardFence())}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: p.owned, Fenced: t.Fenced, May: t.Valid})
	return orphanedShard{p}
}

func (o orphanedShard) giveUp() {
	if o.ownership.Valid() {
		_ = o.shard.Drain(o.ownership.Context()) // it has no progress to store
	} else {
		o.shard.Drop()
	}
}

// endAll ends all subscriptions of the shard. It logs and returns the first error.
func (o orphanedShard) endAll() error {
	ctx, of := o.ownership.Context(), o.ownership.ShardFence().Shard
	for after := ""; ; {
		page, err := o.owned.Subscriptions(ctx, after, recordsPerPage)
		for i := 0; i < len(page) && err == nil; i++ {
			err = o.endSubscription(ctx, page[i].ID)
		}
		if err = o.fencedToClosed(err); err != nil {
			if !errors.Is(err, errShardClosed) {
				o.w.o.Log.Internal(ctx, "ending the subscriptions of "+of.String(), err)
			}
			return err
		}
		if len(page) == 0 {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// endSubscription ends one subscription, unless its event type has since been registered.
func (o orphanedShard) endSubscription(ctx context.Context, id string) error {
	unlock, err := o.w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := o.w.store.Subscription(ctx, id)
	if err != nil || !ok || o.w.isServed(shardOfRecord(&r)) {
		return err
	}
	err = o.w.begin(ctx, o.ownedShard, &r, &beginning{}) // which ends it
	o.w.Changed(r.ID, shardOfRecord(&r))                 // the type may be registered by now
	return err
}

// orphanError returns the error that ends a subscription if no process serves its event type with webhooks.
func (w *Subscriptions) orphanError(event string) *events.Error {
	if et, ok := w.host.Type(event); ok && et.Current() != nil {
		return fault.UnsupportedMode(wire.ModeWebhook)
	}
	return fault.NotFound("event")
}

// endObsolete ends and reports a stored subscription that no process can serve.
func (p *ownedShard) endObsolete(ctx context.Context, r *store.Subscription, reason *events.Error) error {
	err := p.endRecord(ctx, r, reason)
	if err == nil && !Lapsed(r, p.w.Now()) {
		p.w.reportObsolete(r.Event, reason)
	}
	return err
}

// obsoletePause is the time for which subscriptions that end for the same reason are counted for one warning. The shards
// of an event type end their subscriptions separately.
const obsoletePause = 5 * time.Second

// reportObsolete counts an ended subscription that no process can serve. It logs a warning in the background.
func (w *Subscriptions) reportObsolete(event string, reason *events.Error) {
	key := event + " " + reason.Error()
	w.mu.Lock()
	w.obsolete[key]++
	first := w.obsolete[key] == 1
	w.mu.Unlock()
	if !first {
		return
	}
	w.runInBackground(func() {
		select {
		case <-w.ctx.Done():
		case <-time.After(obsoletePause):
		}
		w.mu.Lock()
		n := w.obsolete[key]
		delete(w.obsolete, key)
		w.mu.Unlock()
		w.o.Log.Logger.Warn("mcp events: webhook subscriptions have ended because no process serves their event type as they need it",
			"event", event, "subscriptions", n, "reason", reason)
	})
}

// Review ends the subscriptions that no running build can serve (REP-16, EVOL-2). It queues records that were left to
// other builds for another read, which ends their subscriptions.
func (w *Subscriptions) Review(et eventtype.Type) {
	if w == nil {
		return
	}
	// Do not hold the lock here, because Obsolete can query the store for each schema.
	schemas := map[string]*events.Error{}
	w.visitType(et, func(_ *ownedShard, _ *Live, _, schema string) { schemas[schema] = nil })
	for s := range schemas {
		if schemas[s] = w.cluster.Obsolete(et, s, true); schemas[s] == nil {
			delete(schemas, s)
		}
	}
	if len(schemas) == 0 {
		return
	}
	var over []func()
	w.visitType(et, func(p *ownedShard, h *Live, id, schema string) {
		switch e := schemas[schema]; {
		case e == nil:
		case h != nil:
			over = append(over, func() { w.End(h, e); w.reportObsolete(et.Name(), e) })
		default:
			delete(p.left, id)
			over = append(over, func() { w.Changed(id, p.ownership.ShardFence().Shard) })
		}
	})
	for _, end := range over {
		end()
	}
}

// visitType calls f for each subscription to a type, with its schema, while it holds the lock. If a subscription is
// left to other builds, h is nil.
func (w *Subscriptions) visitType(et eventtype.Type, f func(p *ownedShard, h *Live, id, schema string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.ownedShards {
		if p.et != et {
			continue
		}
		for h := range p.live {
			f(p, h, h.ID(), h.schema)
		}
		for id, schema := range p.left {
			f(p, nil, id, schema)
		}
	}
}
