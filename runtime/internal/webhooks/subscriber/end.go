package subscriber

import (
	"cmp"
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An ending tells why a live subscription ends in this process. Its text completes a log message.
type ending string

const (
	endUnsubscribed ending = "ends by unsubscribe"
	endExpired      ending = "expires"
	endElsewhere    ending = "has ended elsewhere"
	endReplaced     ending = "has ended and begun elsewhere"
	endTerminated   ending = "is terminated"
	endFailed       ending = "without expiry is ended after failing too long"
	endMoved        ending = "continues in another process"
	endFenced       ending = "has another owner" // found when End deleted the record
	endStopped      ending = "ends with the server"
)

// endLive ends a live subscription in this process. No other function does. It sends a terminated envelope if
// [Subscriptions.End] has given a reason, and calls OnUnsubscribe unless the subscription continues in another process.
// A caller that holds the key must keep the key until endLive returns, because OnUnsubscribe precedes the OnSubscribe of
// a new subscription. endLive does not change the record. It returns false if h is no longer live.
func (w *Subscriptions) endLive(ctx context.Context, h *Live, why ending) bool {
	reason, ok := w.removeLive(h, why)
	if !ok {
		return false
	}
	text := "webhook subscription " + string(why)
	if reason == nil || why == endFenced {
		h.Handle.Remove()
	} else {
		w.mu.Lock()
		dialect, refreshed := h.dialect, time.Unix(0, h.refreshed)
		w.mu.Unlock()
		h.Handle.HoldUntil(w.limitHold(refreshed.Add(ReplyTime))) // do not wait for another read of the record
		h.Handle.Terminate(*fault.Object(reason, dialect))
		text += ": " + reason.Kind.String()
	}
	if why == endMoved || why == endFenced {
		w.host.Release(h.Identity(), h.Arguments())
		return true
	}
	w.host.Leave(h.Identity(), h.Arguments()) // calls OnUnsubscribe (SRV-3)
	if why != endStopped {
		w.logEvent(ctx, text, h)
	}
	return true
}

// removeLive removes h from the live subscriptions and returns the reason that was given to End. It returns false if h
// is no longer live, or if h moves to another process while End deletes its record.
func (w *Subscriptions) removeLive(h *Live, why ending) (reason *events.Error, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[h.ID()] != h || why == endMoved && h.reason != nil {
		return nil, false
	}
	delete(w.byID, h.ID())
	delete(h.ownedShard.live, h)
	if h.ownedShard.touched != nil {
		h.ownedShard.touched[h.ID()] = true // the restore may have read its record already
	}
	w.host.Give(h.Principal(), h.charge)
	return h.reason, true
}

// handleEnded handles a subscription that has expired or has failed for too long. The engine calls it.
func (w *Subscriptions) handleEnded(handle *delivery.Handle, why delivery.End) {
	if why == delivery.Expired { // another process may have refreshed it
		w.queueSync(handle.ID(), engine.Shard{})
		return
	}
	w.runInBackground(func() {
		// A concurrent request that creates or refreshes the subscription comes first.
		unlock, err := w.keys.Lock(w.ctx, handle.ID())
		if err != nil {
			return
		}
		defer unlock()
		if h := w.Get(handle.ID()); h != nil && h.Handle == handle {
			w.terminate(h, events.NewError(wire.CallbackEndpointError, nil), endFailed) // the engine has sent its envelope
		}
	})
}

// End terminates a live subscription with an envelope that contains the reason.
func (w *Subscriptions) End(h *Live, reason *events.Error) { w.terminate(h, reason, endTerminated) }

// terminate deletes the record of a live subscription and then ends the subscription. It does not wait for the key,
// because requests and hooks can hold the key for a long time. If the store fails, the record remains. Such a record is
// ended for the same reason after the next start.
func (w *Subscriptions) terminate(h *Live, reason *events.Error, why ending) {
	ctx, cancel := finishContext()
	defer cancel()
	for ended := false; !ended; {
		h = w.currentLife(h)
		w.mu.Lock()
		h.reason = cmp.Or(h.reason, reason)
		live := w.byID[h.ID()] == h
		w.mu.Unlock()
		if !live {
			return
		}
		h.Handle.Stop() // deleting may be slow
		err := h.ownedShard.owned.DeleteSubscription(ctx, h.ID(), h.Handle.Generation())
		if h.ownedShard.checkFenced(err) {
			why = endFenced
		} else if err != nil {
			w.o.Log.Internal(ctx, "deleting webhook subscription "+h.ID(), err)
		}
		ended = w.endLive(ctx, h, why)
	}
}

// OfType returns a filter for the subscriptions to a type.
func OfType(et eventtype.Type) func(*Live) bool {
	return func(h *Live) bool { return h.Type() == et }
}
