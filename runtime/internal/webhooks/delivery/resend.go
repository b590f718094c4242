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

// ErrLost is returned by [Handle.SendAgain] if the log no longer contains the occurrence or it no longer matches.
var ErrLost = errors.New("delivery: the occurrence can no longer be read")

// ErrUnderWay is returned by [Handle.SendAgain] while another attempt at the occurrence is in flight.
var ErrUnderWay = errors.New("delivery: an attempt at the occurrence is in progress")

// A resendKey identifies an occurrence that an operator is resending.
type resendKey struct {
	h        *Handle
	position store.Position
}

// SendAgain repeats the attempt at an occurrence with the same webhook-id. It does so regardless of the earlier result,
// even if the subscription is suspended or paused. It returns [ErrUnderWay] while another attempt at the occurrence is
// in flight.
//
// If a retry is pending, this attempt replaces it and has the same effects. Otherwise, a failure does not affect the
// endpoint's health, and a success ends a series of failures. If the subscription is suspended or paused, the result
// does not affect the health either. An occurrence that the endpoint accepts is not
// resent later. If the attempt fails, the state of the occurrence does not change.
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
	shard.endTurn()
	e.scheduleNow(h)
	h.release()
	e.unlock()
	if removed {
		e.handleEnd(h, Failed)
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

func (h *Handle) sendAgain(ctx context.Context, u *pendingEvent, made operator.Attempt, turn uint32) (again operator.Attempt, removed bool, err error) {
	e := h.e
	f, err := h.reader.Read(ctx, made.Position-1, 1)
	if err != nil {
		return again, false, fmt.Errorf("delivery: reading occurrence %s: %w", made.EventID, err)
	}
	if len(f.Items) == 0 || f.Items[0].Position != made.Position || f.Items[0].EventID != made.EventID || f.Items[0].Body == nil {
		return again, false, ErrLost
	}
	// Use the safe cursor, so a receiver that stores it does not miss an occurrence.
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
	again, removed = e.applyResult(h, u, made.EventID, r)
	if r.category == "" && !h.hasEnded() && h.intake.turn == turn {
		// It may be in the window by now, or be read only later if the subscription was paused or suspended at a
		// restart.
		if w := h.pendingAt(made.Position); w == nil {
			h.marks.Skip(made.Position)
		} else if !w.busy {
			h.settleEvent(w)
		}
		e.scheduleWrite(h)
	}
	return again, removed, nil
}
