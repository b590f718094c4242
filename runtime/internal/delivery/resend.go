package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// ErrLost is returned by [Handle.SendAgain] for an occurrence that is no longer in the log or no longer matches the
// subscription.
var ErrLost = errors.New("delivery: the occurrence can no longer be read")

// ErrUnderWay is returned by [Handle.SendAgain] while another attempt at the occurrence is in flight.
var ErrUnderWay = errors.New("delivery: an attempt at the occurrence is in progress")

// A resendKey identifies an occurrence that an operator is resending.
type resendKey struct {
	h        *Handle
	position store.Position
}

// SendAgain makes another attempt at an occurrence that was attempted before, with the same webhook-id. The earlier
// result does not matter, and the subscription may be suspended or paused. It returns [ErrUnderWay] while another
// attempt at the occurrence is in flight.
//
// If a retry is pending, the attempt replaces it, with the same consequences. Otherwise, or if the subscription is
// suspended or paused, the result does not affect the endpoint's health. An accepted occurrence is not resent later.
// After a failure, the occurrence keeps its state.
func (h *Handle) SendAgain(ctx context.Context, made operator.Attempt) (operator.Attempt, error) {
	e, key := h.e, resendKey{h, made.Position}
	e.mu.Lock()
	shard := h.shard
	if h.hasEnded() || e.closing || shard.closing {
		e.mu.Unlock()
		return operator.Attempt{}, ErrClosed
	}
	u := h.pendingAt(made.Position)
	if _, ok := e.resending[key]; ok || u != nil && u.busy {
		e.mu.Unlock()
		return operator.Attempt{}, ErrUnderWay
	}
	if u == nil {
		u = &pendingEvent{position: made.Position, dropped: true}
		u.attempts = made.Number
	}
	u.busy = true
	e.resending[key] = struct{}{}
	shard.busy++
	h.inFlight++
	e.flying++
	turn := h.intake.turn
	e.mu.Unlock()
	again, removed, err := h.sendAgain(ctx, u, made, turn)
	e.mu.Lock()
	u.busy = false
	delete(e.resending, key)
	h.inFlight--
	e.flying--
	shard.end()
	e.scheduleNow(h)
	h.release()
	e.unlock()
	if removed {
		e.ended(h, Failed)
	}
	return again, err
}

// pendingAt returns the unsettled occurrence at position p, or nil. The engine's lock must be held.
func (h *Handle) pendingAt(p store.Position) *pendingEvent {
	i := slices.IndexFunc(h.window, func(u *pendingEvent) bool { return u.position == p })
	if i < 0 {
		return nil
	}
	return h.window[i]
}

func (h *Handle) sendAgain(ctx context.Context, u *pendingEvent, made operator.Attempt, turn int) (again operator.Attempt, removed bool, err error) {
	e := h.e
	f, err := h.reader.Read(ctx, made.Position-1, 1)
	if err != nil {
		return again, false, fmt.Errorf("delivery: reading occurrence %s: %w", made.EventID, err)
	}
	if len(f.Items) == 0 || f.Items[0].Position != made.Position || f.Items[0].EventID != made.EventID || f.Items[0].Body == nil {
		return again, false, ErrLost
	}
	// Use the safe cursor, so that a receiver that stores it does not miss anything.
	body, err := f.Items[0].Body(h.Watermark())
	if err != nil {
		return again, false, fmt.Errorf("%w: %w", ErrLost, err)
	}
	r, err := e.send(h, &u.retryState, webhook.Message{ID: made.EventID, Subscription: h.id, Body: body}, "")
	switch {
	case err != nil:
		return again, false, fmt.Errorf("delivery: %w", err)
	case r.aborted:
		return again, false, ErrClosed
	}
	r.by = actor.Of(ctx)
	e.mu.Lock()
	defer e.unlock()
	again, removed = e.conclude(h, u, made.EventID, r)
	if r.category == "" && !h.hasEnded() && h.intake.turn == turn {
		// It may be in the window by now, or be read only later if the subscription was paused or suspended at a
		// restart.
		if w := h.pendingAt(made.Position); w == nil {
			h.marks.Skip(made.Position)
		} else if !w.busy {
			h.settle(w)
		}
		e.touch(h)
	}
	return again, removed, nil
}
