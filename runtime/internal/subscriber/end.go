package subscriber

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Remove ends the subscription of the id without a word; false when there is none. It is stored
// before deliveries stop: an answer of success outlives a crash.
func (w *Subscriptions) Remove(ctx context.Context, id string) (bool, error) {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if w.sharing != nil {
		return w.removeShared(ctx, id)
	}
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
	if h := w.Get(id); h != nil && w.delist(h) {
		h.Handle.Remove()
		w.leave(h)
		w.tell(ctx, "webhook subscription ends by unsubscribe", h)
	}
	return ok && !Lapsed(&r, w.now()), nil
}

// lapse clears away a subscription whose time is over. One that is being terminated at this moment
// keeps its envelope. The caller holds the key.
func (w *Subscriptions) lapse(ctx context.Context, h *Live) {
	if !w.delist(h) {
		return
	}
	h.Handle.Remove()
	w.delete(ctx, h)
	w.leave(h)
}

// recordsOf is what the owner of a live subscription writes its record by (REP-7).
func (w *Subscriptions) recordsOf(h *Live) store.OwnedStore {
	if h.own != nil {
		return h.own.part.owned
	}
	return w.store
}

// delete takes the record away. What stays when the store fails is lapsed, or ends at the next
// start for the reason that ended it now. False means that another process owns it.
func (w *Subscriptions) delete(ctx context.Context, h *Live) bool {
	err := w.recordsOf(h).DeleteSubscription(ctx, h.ID, h.Generation)
	if err == nil {
		return true
	}
	if h.own != nil && h.own.part.lost(err) {
		h.Handle.Remove()
		w.host.Release(h.Identity(), h.Arguments())
		return false
	}
	w.o.Log.Internal(ctx, "deleting webhook subscription "+h.ID, err)
	return true
}

// ended is told by the engine that a subscription expired or failed for too long.
func (w *Subscriptions) ended(handle *delivery.Handle, why delivery.End) {
	w.background(func() {
		// Whoever begins or refreshes the subscription at this moment comes first.
		unlock, err := w.keys.Lock(w.ctx, handle.ID())
		if err != nil {
			return
		}
		defer unlock()
		h := w.Get(handle.ID())
		if h == nil || h.Handle != handle || !w.delist(h) {
			return
		}
		ctx, cancel := finishing()
		defer cancel()
		if why == delivery.Expired && h.own != nil {
			w.lapseShared(ctx, h)
			return
		}
		if !w.delete(ctx, h) {
			return
		}
		w.leave(h)
		message := "webhook subscription expires"
		if why == delivery.Failed {
			message = "webhook subscription without expiry is given up"
		}
		w.tell(ctx, message, h)
	})
}

// End terminates a live subscription with an envelope that gives the reason.
func (w *Subscriptions) End(h *Live, reason *events.Error) {
	for !w.delist(h) {
		next := w.latest(h)
		if next == h {
			return
		}
		h = next
	}
	ctx, cancel := finishing()
	defer cancel()
	if !w.delete(ctx, h) {
		return
	}
	w.mu.Lock()
	dialect := h.dialect
	w.mu.Unlock()
	h.Handle.Terminate(*fault.Object(reason, dialect))
	w.leave(h)
	w.tell(ctx, "webhook subscription is terminated: "+reason.Kind.String(), h)
}

// EndAll terminates the live subscriptions that which picks.
func (w *Subscriptions) EndAll(which func(*Live) bool, reason *events.Error) int {
	if w == nil {
		return 0
	}
	return w.Each(which, func(h *Live) { w.End(h, reason) })
}

// OfType picks the subscriptions to a type.
func OfType(et EventType) func(*Live) bool {
	return func(h *Live) bool { return h.Type == et }
}
