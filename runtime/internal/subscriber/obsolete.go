package subscriber

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ownOrphans ends the subscriptions of a shard whose event type no process has registered for some time (EVOL-1).
// It gives the shard up when this process registers the type.
func (w *Subscriptions) ownOrphans(t Ownership) {
	of := w.orphansOf(t)
	defer of.giveUp()
	for pause := time.Duration(0); ; {
		select {
		case <-t.Context().Done():
			return
		case <-t.Draining():
			return
		case <-time.After(pause):
		}
		if w.serves(t.ShardFence().Shard) {
			return
		}
		pause = lookPause
		if err := of.end(); err != nil {
			pause = restorePause
		}
	}
}

// EndOrphans ends the subscriptions of a shard whose event type is not registered, until all have ended or the type
// is registered. It is for the only process that serves the store.
func (w *Subscriptions) EndOrphans(t Ownership) {
	w.background(func() {
		of := w.orphansOf(t)
		defer of.giveUp()
		for !w.serves(t.ShardFence().Shard) && of.end() != nil {
			select {
			case <-w.ctx.Done():
				return
			case <-time.After(restorePause):
			}
		}
	})
}

// serves reports whether the shard's event type is registered here with webhooks, or the shard has a part here.
func (w *Subscriptions) serves(of engine.Shard) bool {
	if w.partOf(of) != nil {
		return true
	}
	et, ok := w.host.Type(of.Topic)
	return ok && et.Current() != nil && et.Current().Webhooks()
}

// orphans is a shard whose event type no process serves.
type orphans struct{ *part }

func (w *Subscriptions) orphansOf(t Ownership) orphans {
	p := &part{w: w, ownership: t, owned: w.store.Owned(t.ShardFence())}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: p.owned, Fenced: t.Fenced, May: t.Valid})
	return orphans{p}
}

func (o orphans) giveUp() {
	if o.ownership.Valid() {
		_ = o.shard.Drain(o.ownership.Context()) // it has no progress to store
	} else {
		o.shard.Drop()
	}
}

// end ends all subscriptions of the shard. It logs and returns a failure.
func (o orphans) end() error {
	ctx, of := o.ownership.Context(), o.ownership.ShardFence().Shard
	for after := ""; ; {
		page, err := o.owned.Subscriptions(ctx, after, loadPage)
		for i := 0; i < len(page) && err == nil; i++ {
			err = o.endOne(ctx, page[i].ID)
		}
		if err != nil {
			if !o.lost(err) {
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

// endOne ends one subscription, unless its event type has been registered meanwhile.
func (o orphans) endOne(ctx context.Context, id string) error {
	unlock, err := o.w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := o.w.store.Subscription(ctx, id)
	switch {
	case err != nil || !ok || o.w.serves(inShard(&r)) || o.w.forged(ctx, &r):
		return err
	case Lapsed(&r, o.w.Now()):
		err = o.w.endRecord(ctx, o.part, &r, nil)
	default:
		err = o.w.endRecord(ctx, o.part, &r, o.w.orphaned(r.Event))
	}
	o.w.Changed(r.ID, inShard(&r)) // the type may be registered by now
	if errors.Is(err, errAgain) {
		return nil // it was just refreshed; Changed reads it again
	}
	return err
}

// orphaned returns the error that ends a subscription whose event type no process serves by webhook.
func (w *Subscriptions) orphaned(event string) *events.Error {
	if et, ok := w.host.Type(event); ok && et.Current() != nil {
		return fault.UnsupportedMode(wire.ModeWebhook)
	}
	return fault.NotFound("event")
}

// Review ends the subscriptions that no running build can serve (REP-16, EVOL-2).
func (w *Subscriptions) Review(et eventtype.Type) {
	if w == nil {
		return
	}
	// Obsolete may query the store for each schema, so no lock is held here.
	schemas := map[string]*events.Error{}
	w.eachOf(et, func(_ *part, _ *Live, _, schema string) { schemas[schema] = nil })
	for s := range schemas {
		if schemas[s] = w.cluster.Obsolete(et, s, true); schemas[s] == nil {
			delete(schemas, s)
		}
	}
	if len(schemas) == 0 {
		return
	}
	var over []func()
	w.eachOf(et, func(p *part, h *Live, id, schema string) {
		switch e := schemas[schema]; {
		case e == nil:
		case h != nil:
			over = append(over, func() { w.End(h, e) })
		default:
			over = append(over, func() { w.endLeft(p, id, schemas) })
		}
	})
	for _, end := range over {
		end()
	}
}

// eachOf calls f, under the lock, for each subscription to a type with its schema. h is nil for subscriptions that
// are left to other builds.
func (w *Subscriptions) eachOf(et eventtype.Type, f func(p *part, h *Live, id, schema string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.et != et {
			continue
		}
		for h := range p.live {
			f(p, h, h.ID, h.schema)
		}
		for id, schema := range p.left {
			f(p, nil, id, schema)
		}
	}
}

// endLeft ends a record that was left to other builds once no such build is running.
func (w *Subscriptions) endLeft(p *part, id string, obsolete map[string]*events.Error) {
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
		e := obsolete[r.Schema]
		if e == nil {
			return // another build refreshed it meanwhile
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
