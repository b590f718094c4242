package subscriber

import (
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

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
