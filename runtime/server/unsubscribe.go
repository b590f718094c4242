package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// unsubscribe answers events/unsubscribe: it asks who it is and for the key, nothing else (SUB-9).
func (s *Server) unsubscribe(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodeUnsubscribeParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	if r.Principal == "" {
		return nil, events.Forbidden("")
	}
	canonical, err := wire.Canonical(p.Arguments)
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	done, idempotent := false, false
	if w := s.webhooks; w != nil {
		id := wire.SubscriptionID(wire.ModeWebhook, r.Principal, p.Delivery.URL, p.Name, canonical)
		if done, err = w.remove(ctx, id); err != nil {
			return nil, err
		}
		idempotent = w.o.IdempotentUnsubscribe
	}
	if !done && !idempotent {
		return nil, fault.NotFound("subscription")
	}
	if r.Stateless {
		return json.RawMessage(`{"resultType":"` + wire.ResultComplete + `"}`), nil
	}
	return json.RawMessage(`{}`), nil
}

// remove ends the subscription of the id without a word; false when there is none. It is stored
// before deliveries stop: an answer of success outlives a crash.
func (w *webhooks) remove(ctx context.Context, id string) (bool, error) {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return false, err
	}
	if ok {
		if err := w.store.DeleteSubscription(ctx, id, r.Generation); err != nil {
			return false, err
		}
	}
	w.forget(id)
	if h := w.get(id); h != nil && w.delist(h) {
		h.handle.Remove()
		w.leave(h)
		w.log(ctx, "webhook subscription ends by unsubscribe", h)
	}
	return ok && !lapsed(&r, time.Now()), nil
}

// lapse clears away a subscription whose time is over. One that is being terminated at this moment
// keeps its envelope. The caller holds the key.
func (w *webhooks) lapse(ctx context.Context, h *subscription) {
	if !w.delist(h) {
		return
	}
	h.handle.Remove()
	w.delete(ctx, h)
	w.leave(h)
}

// delete takes the record away. What stays when the store fails is lapsed, or ends at the next
// start for the reason that ended it now.
func (w *webhooks) delete(ctx context.Context, h *subscription) {
	if err := w.store.DeleteSubscription(ctx, h.id, h.generation); err != nil {
		w.server.log.Internal(ctx, "deleting webhook subscription "+h.id, err)
	}
}

// ended is told by the engine that a subscription expired or failed for too long.
func (w *webhooks) ended(handle *delivery.Handle, why delivery.End) {
	w.background(func() {
		// Whoever begins or refreshes the subscription at this moment comes first.
		unlock, err := w.keys.Lock(w.ctx, handle.ID())
		if err != nil {
			return
		}
		defer unlock()
		h := w.get(handle.ID())
		if h == nil || h.handle != handle || !w.delist(h) {
			return
		}
		ctx, cancel := w.server.hookContext(hookTime)
		defer cancel()
		w.delete(ctx, h)
		w.leave(h)
		message := "webhook subscription expires"
		if why == delivery.Failed {
			message = "webhook subscription without expiry is given up"
		}
		w.log(ctx, message, h)
	})
}

// end terminates a live subscription with an envelope that gives the reason.
func (w *webhooks) end(h *subscription, reason *events.Error) {
	for !w.delist(h) {
		next := w.latest(h)
		if next == h {
			return
		}
		h = next
	}
	ctx, cancel := w.server.hookContext(hookTime)
	defer cancel()
	w.delete(ctx, h)
	w.mu.Lock()
	dialect := h.dialect
	w.mu.Unlock()
	h.handle.Terminate(*fault.Object(reason, dialect))
	w.leave(h)
	w.log(ctx, "webhook subscription is terminated: "+reason.Kind.String(), h)
}

// endAll terminates the live subscriptions that which picks.
func (w *webhooks) endAll(which func(*subscription) bool, reason *events.Error) int {
	if w == nil {
		return 0
	}
	return w.each(which, func(h *subscription) { w.end(h, reason) })
}

func ofType(et *eventType) func(*subscription) bool {
	return func(h *subscription) bool { return h.et == et }
}
