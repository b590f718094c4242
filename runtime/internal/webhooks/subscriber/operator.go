package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// performTime is the timeout of a request, or of each event of a RequestSend. Replays of a check and delivery attempts
// have shorter timeouts.
const performTime = time.Minute

// Ask stores an operator's request in the record of a subscription, notifies the owner, which performs it, and returns
// the number of the request. The request is performed even if a process crashes, but it might then be performed twice.
// If the latest request of the kind has the key of ctx, Ask returns its number instead.
func (w *Subscriptions) Ask(ctx context.Context, id string, kind store.RequestKind, q store.Request) (number uint64, err error) {
	q.At, q.Actor, q.Key = w.Now(), actor.Of(ctx), actor.Key(ctx)
	var refused error
	r, err := w.editRecord(ctx, id, func(r *store.Subscription) (changed bool) {
		changed, refused = w.addRequest(r, kind, q)
		return changed
	})
	switch {
	case errors.Is(err, errNoRecord):
		return 0, fault.NotFound("subscription")
	case err != nil:
		return 0, fmt.Errorf("storing a request for subscription %s: %w", id, err)
	case refused != nil:
		return 0, refused
	}
	h := w.Get(id)
	if h != nil && h.Handle.Generation() == r.Generation {
		w.performRequests(h, &r)
	}
	if h == nil || !h.Ours() {
		err = w.notifyOwner(ctx, &r)
	}
	return r.Requests[kind].Number, err
}

// addRequest assigns the next number to a request and adds the request to a record. It returns false if the record
// already contains the request, or does not accept it.
func (w *Subscriptions) addRequest(r *store.Subscription, kind store.RequestKind, q store.Request) (added bool, err error) {
	latest := r.Requests[kind]
	switch {
	case Lapsed(r, w.Now()):
		return false, fault.NotFound("subscription")
	case q.Key != "" && q.Key == latest.Key:
		return false, nil
	case q.Ends && !latest.Pending() && lastReplay(r) == nil:
		return false, fault.NotFound("replay")
	}
	for _, e := range q.Events {
		if slices.ContainsFunc(latest.Events, func(pending store.Resend) bool { return pending.EventID == e.EventID }) {
			return false, errUnderWay
		}
	}
	q.Events = slices.Concat(latest.Events, q.Events)
	if len(q.Events) > store.MaxResends {
		return false, fault.Exhausted("pending events to send", store.MaxResends)
	}
	q.Number, q.Done, q.Replay, q.Signaled = latest.Number+1, latest.Done, latest.Replay, latest.Signaled
	setRequest(r, kind, q)
	return true, nil
}

// setRequest stores a request in a record that may share its requests with other copies.
func setRequest(r *store.Subscription, kind store.RequestKind, q store.Request) {
	if r.Requests = maps.Clone(r.Requests); r.Requests == nil {
		r.Requests = map[store.RequestKind]store.Request{}
	}
	r.Requests[kind] = q
}

// pendingEndReason returns the reason of a pending RequestEnd, or nil if none is pending.
func pendingEndReason(r *store.Subscription) *events.Error {
	if q := r.Requests[store.RequestEnd]; q.Pending() {
		return endReason(&q)
	}
	return nil
}

// endReason decodes the reason of a RequestEnd.
func endReason(q *store.Request) *events.Error {
	var o wire.ErrorObject
	if err := json.Unmarshal(q.Reason, &o); err != nil {
		return events.Forbidden("terminated")
	}
	return fault.FromStored(&o)
}

// lastReplay returns the replay in progress according to the record, or nil.
func lastReplay(r *store.Subscription) *store.Replay {
	if begun := r.Requests[store.RequestReplay].Replay; begun != nil && r.Progress.Base < begun.Last {
		return begun
	}
	return nil
}

// ReplayIn describes the replay in progress according to a record. It returns nil without a replay.
func ReplayIn(r *store.Subscription) *operator.Replay {
	begun := lastReplay(r)
	if begun == nil {
		return nil
	}
	return &operator.Replay{AskedBy: begun.Actor, Left: int64(begun.Last - r.Progress.Base)}
}

// Requests describes the requests in a record, sorted by kind.
func Requests(r *store.Subscription) (all []operator.Request) {
	for _, kind := range slices.Sorted(maps.Keys(r.Requests)) {
		q := r.Requests[kind]
		if q.Number == 0 { // only gaps of the event type
			continue
		}
		all = append(all, operator.Request{Kind: string(kind), Number: q.Number, Ends: q.Ends, AskedBy: q.Actor, At: q.At,
			Done: q.Done.Number, DoneAt: q.Done.At, Failure: q.Done.Failure})
	}
	return all
}

// A knownRequest is the latest request of a kind that this process knows. The flag running is set while a goroutine
// performs the requests of the kind.
type knownRequest struct {
	store.Request
	running bool
}

// isNewRequest reports whether a request is pending and this process does not know it. The lock must be held.
func (h *Live) isNewRequest(kind store.RequestKind, q *store.Request) bool {
	known := h.requests[kind]
	return q.Pending() && (known == nil || known.Number < q.Number)
}

// performRequests starts to perform the new requests of a live subscription. Requests of the same kind are performed one
// after another. A request that is replaced before its turn is not performed.
func (w *Subscriptions) performRequests(h *Live, r *store.Subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, q := range r.Requests {
		if w.closed || !h.isNewRequest(kind, &q) {
			continue
		}
		if h.requests == nil {
			h.requests = map[store.RequestKind]*knownRequest{}
		}
		latest := h.requests[kind]
		if latest == nil {
			latest = &knownRequest{}
			h.requests[kind] = latest
		}
		if latest.Request = q; !latest.running {
			latest.running = true
			w.tasks.Go(func() { w.performLatest(h, kind, latest) })
		}
	}
}

// performLatest performs requests of a kind until the latest one has been performed.
func (w *Subscriptions) performLatest(h *Live, kind store.RequestKind, latest *knownRequest) {
	for performed := uint64(0); ; {
		w.mu.Lock()
		q := latest.Request
		latest.running = q.Number != performed
		w.mu.Unlock()
		if q.Number == performed {
			return
		}
		w.performRequest(h, kind, &q)
		performed = q.Number
	}
}

// performRequest performs a request and stores its outcome. If the request fails because the subscription has a new
// owner, the new owner performs it.
func (w *Subscriptions) performRequest(h *Live, kind store.RequestKind, q *store.Request) {
	ctx := actor.With(h.ownedShard.ownership.Context(), q.Actor)
	ctx, cancel := context.WithTimeout(ctx, performTime*time.Duration(max(len(q.Events), 1)))
	defer cancel()
	err := w.act(ctx, h, kind, q)
	if err == nil {
		err = w.engine.Flush(ctx)
	}
	if errors.Is(err, delivery.ErrClosed) || kind == store.RequestEnd || !h.ownedShard.ownership.Valid() {
		return // an end stays pending until its record is deleted
	}
	done := store.Outcome{Number: q.Number, At: w.Now()}
	if err != nil {
		done.Failure = err.Error()
	}
	replaying := w.currentLife(h).Handle.Replaying() != nil
	w.editRequest(h, kind, "done", func(stored *store.Request) {
		stored.Done = done
		stored.Events = slices.DeleteFunc(slices.Clone(stored.Events), func(e store.Resend) bool { return slices.Contains(q.Events, e) })
		if !replaying {
			stored.Replay = nil
		}
	})
}

// editRequest stores the latest request of a kind after edit has changed it to the given state. It returns false if the
// process no longer owns the subscription.
func (w *Subscriptions) editRequest(h *Live, kind store.RequestKind, state string, edit func(stored *store.Request)) bool {
	ctx := h.ownedShard.ownership.Context()
	return h.ownedShard.retryUntilDone(ctx, "storing that a request of subscription "+h.ID()+" is "+state, func() error {
		_, err := w.editRecordWith(ctx, h.ownedShard.owned.PutSubscription, h.ID(), func(r *store.Subscription) bool {
			q, ok := r.Requests[kind]
			if !ok { // another subscription with the same key
				return false
			}
			edit(&q)
			setRequest(r, kind, q)
			return true
		})
		if errors.Is(err, errNoRecord) {
			return nil
		}
		return h.ownedShard.fencedToClosed(err)
	})
}

// act performs a request.
func (w *Subscriptions) act(ctx context.Context, h *Live, kind store.RequestKind, q *store.Request) error {
	h = w.currentLife(h)
	switch kind {
	case store.RequestResume:
		h.Handle.Resume()
		return nil
	case store.RequestReplay:
		if q.Ends {
			return h.Handle.EndReplay(ctx) // an earlier owner may have ended it
		}
		return w.replay(ctx, h, q)
	case store.RequestSend:
		return w.sendAll(ctx, h, q.Events)
	case store.RequestGap:
		if t := h.Type().Topic(); t != nil {
			if _, err := t.Latest(ctx); err != nil { // the operator reported a gap up to the latest entry
				return err
			}
		}
		return w.gap(ctx, h)
	case store.RequestEnd:
		w.End(h, endReason(q))
		return nil
	}
	return fmt.Errorf("this process does not know the request %q", kind)
}
