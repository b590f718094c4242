package server

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// restore takes up the stored webhook subscriptions of a type that is registered, and ends them
// when its schemas have changed incompatibly while nobody served it (SUB-11, EVOL-2).
func (s *Server) restore(et *eventType, m *recollection) error {
	m.apply(et.topic)
	done := func() { m.commit(et.topic) }
	if s.webhooks == nil {
		done()
		return nil
	}
	return s.webhooks.restoreType(context.Background(), et, done)
}

// redefined ends the webhook subscriptions of a type that was changed incompatibly, and wakes the
// others to go on under d (EVOL-2, EVOL-3).
func (w *webhooks) redefined(et *eventType, d *definition) error {
	switch {
	case d.changed != "":
		w.endAll(ofType(et), fault.SchemaChanged(d.changed))
	case !d.webhooks():
		w.endAll(ofType(et), fault.UnsupportedMode(wire.ModeWebhook))
	default:
		fresh, err := w.open(context.Background(), et)
		if err != nil {
			return err
		}
		if fresh != nil {
			fresh.Ready()
		}
		w.each(ofType(et), func(h *subscription) { h.handle.Wake() })
	}
	return nil
}

func ofPrincipal(principal string, names []string) func(*subscription) bool {
	return func(h *subscription) bool {
		return h.principal == principal && (len(names) == 0 || slices.Contains(names, h.et.name))
	}
}

// recheck asks the hooks again for a live subscription (AUTH-2, LIST-4).
func (w *webhooks) recheck(ctx context.Context, h *subscription) {
	if e := w.server.refused(hook.WithPrincipal(ctx, h.principal), h.principal, h.reader.latest()); e != nil {
		w.end(h, e)
	}
}

// reauthorize asks for all live subscriptions at every interval (AUTH-2).
func (w *webhooks) reauthorize() {
	o := &w.server.options
	tick := time.NewTimer(o.Reauthorize)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		next := time.Now().Add(o.Reauthorize)
		w.each(w.asksHooks, func(h *subscription) {
			if w.ctx.Err() == nil && w.get(h.id) == h {
				w.recheck(w.ctx, h)
			}
		})
		tick.Reset(max(time.Until(next), 0))
	}
}

// asksHooks reports whether an author decides about the subscription.
func (w *webhooks) asksHooks(h *subscription) bool {
	o := &w.server.options
	return o.Visible != nil || o.Authorize != nil || h.reader.latest().def.authorize != nil
}
