package subscriber

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
)

// delete deletes the record. If the store fails, the record remains. Such a record has either expired or is ended for
// the same reason after the next start. The result is false if another process owns the subscription.
func (w *Subscriptions) delete(ctx context.Context, h *Live) bool {
	err := h.ownedShard.owned.DeleteSubscription(ctx, h.ID, h.Generation)
	if err == nil {
		return true
	}
	if h.ownedShard.checkFenced(err) {
		h.Handle.Remove()
		w.host.Release(h.Identity(), h.Arguments())
		return false
	}
	w.o.Log.Internal(ctx, "deleting webhook subscription "+h.ID, err)
	return true
}

// handleEnded handles a subscription that has expired or has failed for too long. The engine calls it.
func (w *Subscriptions) handleEnded(handle *delivery.Handle, why delivery.End) {
	w.runInBackground(func() {
		// A concurrent request that creates or refreshes the subscription comes first.
		unlock, err := w.keys.Lock(w.ctx, handle.ID())
		if err != nil {
			return
		}
		defer unlock()
		h := w.Get(handle.ID())
		if h == nil || h.Handle != handle {
			return
		}
		ctx, cancel := finishContext()
		defer cancel()
		switch {
		case why == delivery.Expired:
			w.expire(ctx, h)
		case w.removeLive(h) && w.delete(ctx, h):
			w.callOnUnsubscribe(h)
			w.logEvent(ctx, "webhook subscription without expiry is ended after failing too long", h)
		}
	})
}

// End terminates a live subscription with an envelope that contains the reason.
func (w *Subscriptions) End(h *Live, reason *events.Error) {
	for !w.removeLive(h) {
		next := w.currentLife(h)
		if next == h {
			return
		}
		h = next
	}
	h.Handle.Stop() // deleting may be slow
	ctx, cancel := finishContext()
	defer cancel()
	if !w.delete(ctx, h) {
		return
	}
	w.mu.Lock()
	dialect, refreshed := h.dialect, time.Unix(0, h.refreshed)
	w.mu.Unlock()
	h.Handle.HoldUntil(w.limitHold(refreshed.Add(ReplyTime))) // do not wait for another read of the record
	h.Handle.Terminate(*fault.Object(reason, dialect))
	w.callOnUnsubscribe(h)
	w.logEvent(ctx, "webhook subscription is terminated: "+reason.Kind.String(), h)
}

// OfType returns a filter for the subscriptions to a type.
func OfType(et eventtype.Type) func(*Live) bool {
	return func(h *Live) bool { return h.Type == et }
}
