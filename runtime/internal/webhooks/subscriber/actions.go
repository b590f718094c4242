package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// actionGrace is the additional time that [Subscriptions.Ask] waits for an action after the endpoint's timeout.
	actionGrace = 5 * time.Second
	// actionTime is the timeout of an action. Replays of a check and delivery attempts have shorter timeouts.
	actionTime = time.Minute
	// minPollPause and maxPollPause limit the pause between reads of the record while another process performs an
	// action.
	minPollPause = 10 * time.Millisecond
	maxPollPause = 500 * time.Millisecond
)

// Ask stores an action in the record of a subscription and waits until the subscription's owner has performed it. It
// returns the result of the action, or an [operator.AcceptedError] if the action is still pending 5 seconds after the
// endpoint's timeout. The action is performed even if a process crashes, but it might then be performed twice. At most
// [store.MaxActions] actions may be pending.
func (w *Subscriptions) Ask(ctx context.Context, id string, a store.Action) error {
	a.At, a.Actor = w.Now(), actor.Of(ctx)
	var refused error
	r, err := w.editRecord(ctx, id, func(r *store.Subscription) bool {
		refused = w.addAction(r, &a)
		return refused == nil
	})
	switch {
	case errors.Is(err, errNoRecord):
		return fault.NotFound("subscription")
	case err != nil:
		if h := w.findUnreadable(ctx, id); h != nil {
			return w.act(ctx, h, &a)
		}
		return fmt.Errorf("storing an action for subscription %s: %w", id, err)
	case refused != nil:
		return refused
	}
	h := w.findLive(ctx, id)
	var tried <-chan struct{}
	if h != nil && h.Generation == r.Generation {
		tried = w.startActions(h, r.Actions)
	}
	if h == nil || !h.Ours() {
		if err := w.notifyOwner(ctx, &r); err != nil {
			return err
		}
	}
	return w.awaitAction(ctx, &r, &a, tried)
}

// findLive returns the live subscription with the id. If this process has yet to restore the subscription, findLive
// restores it first. It returns nil if another process owns the subscription or the restoration fails.
func (w *Subscriptions) findLive(ctx context.Context, id string) *Live {
	if h := w.Get(id); h != nil {
		return h
	}
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return nil
	}
	defer unlock()
	_, _, _ = w.findRecord(ctx, id) // the restore logs its failure
	return w.Get(id)
}

// findUnreadable returns the live subscription with the id if this process owns it and can no longer read its record.
// Otherwise it returns nil. Actions on such a subscription are performed without its record.
func (w *Subscriptions) findUnreadable(ctx context.Context, id string) *Live {
	h := w.Get(id)
	if h == nil || !h.Ours() {
		return nil
	}
	l, ok, err := engine.ListOne(ctx, w.store, id)
	if err != nil || !ok || l.Unreadable == "" {
		return nil
	}
	return h
}

// addAction assigns the next number to an action and adds the action to a record. If the record is full, it drops the
// oldest completed action.
func (w *Subscriptions) addAction(r *store.Subscription, a *store.Action) error {
	if Lapsed(r, w.Now()) {
		return fault.NotFound("subscription")
	}
	a.Number = 1
	if n := len(r.Actions); n > 0 {
		a.Number = r.Actions[n-1].Number + 1
	}
	if len(r.Actions) >= store.MaxActions {
		done := slices.IndexFunc(r.Actions, func(o store.Action) bool { return !o.Done.IsZero() })
		if done < 0 {
			return fault.Exhausted("pending actions", store.MaxActions)
		}
		r.Actions = slices.Delete(slices.Clone(r.Actions), done, done+1)
	}
	r.Actions = append(slices.Clip(r.Actions), *a)
	return nil
}

// awaitAction waits for an action and returns its result. The record asked contains the action. The channel tried is
// closed after this process has tried to perform the action. It is nil if another process performs the action.
func (w *Subscriptions) awaitAction(ctx context.Context, asked *store.Subscription, a *store.Action, tried <-chan struct{}) error {
	id := asked.ID
	accepted := &operator.AcceptedError{Subscription: id, Number: a.Number}
	limit := w.guard.Timeout()
	if a.Kind == store.ActionReplay {
		limit = max(limit, ReplayTime)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit+actionGrace, accepted)
	defer cancel()
	for pause := minPollPause; ; pause = min(2*pause, maxPollPause) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tried:
			tried = nil
		case <-time.After(pause):
		}
		r, ok, err := w.store.Subscription(ctx, id)
		switch {
		case err != nil && ctx.Err() != nil:
			continue
		case err != nil:
			return fmt.Errorf("waiting for an action of subscription %s: %w", id, err)
		}
		i := slices.IndexFunc(r.Actions, func(o store.Action) bool { return o.Number == a.Number && o.At.Equal(a.At) })
		switch {
		case i >= 0 && r.Actions[i].Done.IsZero():
		case i >= 0:
			return decodeFailure(r.Actions[i].Failure)
		case ok && r.CreatedAt.Equal(asked.CreatedAt):
			return nil // it is done, and a newer action has replaced it
		case a.Kind == store.ActionEnd:
			return nil
		default:
			return fault.NotFound("subscription")
		}
	}
}

// pendingEndReason returns the reason of the first pending ActionEnd, or nil if no ActionEnd is pending.
func pendingEndReason(r *store.Subscription) *events.Error {
	for i := range r.Actions {
		if a := &r.Actions[i]; a.Kind == store.ActionEnd && a.Done.IsZero() {
			return endReason(a)
		}
	}
	return nil
}

// lastReplay returns the action whose replay is in progress according to the record, or nil.
func lastReplay(r *store.Subscription) *store.Action {
	for i := range r.Actions {
		a := &r.Actions[len(r.Actions)-1-i]
		switch {
		case a.Failure != nil:
		case a.Kind == store.ActionEndReplay && !a.Done.IsZero():
			return nil
		case a.Kind == store.ActionReplay && (a.Begun || !a.Done.IsZero()):
			if r.Progress.Base < a.Last {
				return a
			}
			return nil
		}
	}
	return nil
}

// ReplayIn returns the replay in progress according to a record, or nil.
func ReplayIn(r *store.Subscription) *operator.Replay {
	a := lastReplay(r)
	if a == nil {
		return nil
	}
	return &operator.Replay{AskedBy: a.Actor, Left: int64(a.Last - r.Progress.Base)}
}

// Actions returns descriptions of the actions in a record.
func Actions(r *store.Subscription) (all []operator.Action) {
	for i := range r.Actions {
		a := &r.Actions[i]
		d := operator.Action{Number: a.Number, Kind: string(a.Kind), AskedBy: a.Actor, At: a.At, Done: a.Done}
		if err := decodeFailure(a.Failure); err != nil {
			d.Failure = err.Error()
		}
		all = append(all, d)
	}
	return all
}

// endReason decodes the reason of an ActionEnd.
func endReason(a *store.Action) *events.Error {
	var o wire.ErrorObject
	if err := json.Unmarshal(a.Reason, &o); err != nil {
		return events.Forbidden("terminated")
	}
	return fault.FromStored(&o)
}

// startActions starts the pending actions of a live subscription that have not been started. It performs replays and
// their ends one after another, in the order of their numbers. It returns a channel that is closed after an attempt to
// perform the newest pending action, or nil if no action is pending.
func (w *Subscriptions) startActions(h *Live, actions []store.Action) (tried <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(actions) == 0 {
		return nil
	}
	var replayed <-chan struct{} // the replay or end of a replay before
	for i := range actions {
		a := &actions[i]
		if !a.Done.IsZero() {
			continue
		}
		isReplay := a.Kind == store.ActionReplay || a.Kind == store.ActionEndReplay
		before := replayed
		ended := h.actions[a.Number]
		if ended == nil {
			ended = make(chan struct{})
			if h.actions == nil {
				h.actions = map[uint64]chan struct{}{}
			}
			h.actions[a.Number] = ended
			w.tasks.Go(func() {
				defer close(ended)
				if isReplay && before != nil {
					<-before
				}
				w.performAction(h, a)
			})
		}
		if isReplay {
			replayed = ended
		}
		tried = ended
	}
	for n := range h.actions {
		if n < actions[0].Number { // later reads of the record do not contain it
			delete(h.actions, n)
		}
	}
	return tried
}

// performAction performs an action and stores its result. If the action fails because the subscription has a new owner,
// the new owner performs it.
func (w *Subscriptions) performAction(h *Live, a *store.Action) {
	ctx, cancel := context.WithTimeout(actor.With(h.ownedShard.ownership.Context(), a.Actor), actionTime)
	defer cancel()
	err := w.act(ctx, h, a)
	if err == nil {
		err = w.engine.Flush(ctx)
	}
	if errors.Is(err, delivery.ErrClosed) || a.Kind == store.ActionEnd || !h.ownedShard.ownership.Valid() {
		return // an end stays pending until its record is deleted
	}
	failure, replaying := encodeFailure(err), w.currentLife(h).Handle.Replaying() != nil
	w.editAction(h, a, "done", func(stored *store.Action) {
		if stored.Done, stored.Failure = w.Now(), failure; !replaying {
			stored.Last, stored.Settled = 0, nil
		}
	})
}

// editAction stores a pending action after edit has changed it to the given state. It does nothing for an action on an
// unreadable record, which has no number. It returns false if the process no longer owns the subscription.
func (w *Subscriptions) editAction(h *Live, a *store.Action, state string, edit func(stored *store.Action)) bool {
	if a.Number == 0 {
		return true
	}
	ctx := h.ownedShard.ownership.Context()
	return h.ownedShard.retryUntilDone(ctx, "storing that an action of subscription "+h.ID+" is "+state, func() error {
		_, err := w.editRecordWith(ctx, h.ownedShard.owned.PutSubscription, h.ID, func(r *store.Subscription) bool {
			i := slices.IndexFunc(r.Actions, func(o store.Action) bool { return o.Number == a.Number && o.At.Equal(a.At) })
			if i < 0 || !r.Actions[i].Done.IsZero() {
				return false
			}
			r.Actions = slices.Clone(r.Actions)
			edit(&r.Actions[i])
			return true
		})
		if errors.Is(err, errNoRecord) {
			return nil
		}
		return h.ownedShard.fencedToClosed(err)
	})
}

// act performs an action.
func (w *Subscriptions) act(ctx context.Context, h *Live, a *store.Action) error {
	h = w.currentLife(h)
	switch a.Kind {
	case store.ActionResume:
		h.Handle.Resume()
		return nil
	case store.ActionReplay:
		return w.replay(ctx, h, a)
	case store.ActionEndReplay:
		return w.endReplay(ctx, h, a)
	case store.ActionSendAgain:
		return w.sendAgain(ctx, h, a.EventID, a.Seen)
	case store.ActionGap:
		if t := h.Type.Topic(); t != nil {
			if _, err := t.Latest(ctx); err != nil { // the operator reported a gap up to the latest entry
				return err
			}
		}
		return w.gap(ctx, h)
	case store.ActionEnd:
		w.End(h, endReason(a))
		return nil
	}
	return fmt.Errorf("this process does not know the action %q", a.Kind)
}

// An actionFailure is the JSON form in which an action's error is stored.
type actionFailure struct {
	Text     string            `json:"text"`
	Error    *wire.ErrorObject `json:"error,omitempty"`
	UnderWay bool              `json:"underWay,omitempty"`
}

// A remoteError is an error that was stored by another process. It unwraps to an error of the same kind.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// encodeFailure encodes an action's error. It returns nil for a nil error.
func encodeFailure(err error) json.RawMessage {
	if err == nil {
		return nil
	}
	f := actionFailure{Text: err.Error(), UnderWay: errors.Is(err, operator.ErrUnderWay)}
	var e *events.Error
	if errors.As(err, &e) {
		f.Error = fault.Stored(e)
	}
	b, _ := json.Marshal(f) // cannot fail
	return b
}

// decodeFailure decodes the result of encodeFailure.
func decodeFailure(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	var f actionFailure
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("the failure of an action: %w", err)
	}
	e := &remoteError{text: f.Text}
	switch {
	case f.UnderWay:
		e.kind = operator.ErrUnderWay
	case f.Error != nil:
		e.kind = fault.FromStored(f.Error)
	}
	return e
}
