package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// recordAttempt creates the record of an attempt and keeps it until the subscription's progress is stored.
func (h *Handle) recordAttempt(u *pendingEvent, eventID string, r attemptResult) operator.Attempt {
	o := &h.e.o
	by := r.by
	if asked := h.asked; asked != nil {
		if by == "" && u.attempts == 1 && u.position <= asked.Last {
			by = asked.By
		}
		if h.marks.Base() >= asked.Last {
			h.asked = nil
		}
	}
	a := operator.Attempt{EventID: eventID, Event: h.event, Position: u.position, Number: u.attempts, At: r.at, Took: r.took, Category: string(r.category), Status: r.status, AskedBy: by}
	if !u.dropped {
		a.NextAt = h.e.timeOf(u.due)
	}
	if o.Attempts == nil || h.hasEnded() {
		return a
	}
	if h.made == nil {
		h.made = new([]operator.Attempt)
	}
	h.keepNewest(append(*h.made, a))
	h.e.scheduleWrite(h)
	return a
}

// keepNewest sets the list of unsaved attempts to the newest of the given attempts, up to the limit per subscription.
func (h *Handle) keepNewest(made []operator.Attempt) {
	if over := len(made) - h.e.o.AttemptBounds.PerSubscription; over > 0 {
		copy(made, made[over:])
		made = made[:len(made)-over]
	}
	*h.made = made
}

// takeUnsaved returns the attempts that are not yet stored and clears the list.
func (h *Handle) takeUnsaved() []operator.Attempt {
	if h.made == nil {
		return nil
	}
	made := *h.made
	h.made = nil
	return made
}

// restoreUnsaved puts attempts that could not be stored back into the list.
func (h *Handle) restoreUnsaved(made []operator.Attempt) {
	if len(made) == 0 || h.hasEnded() {
		return
	}
	made = append(made, h.takeUnsaved()...)
	h.made = new([]operator.Attempt)
	h.keepNewest(made)
}

const (
	// trimDelay is the delay between a write of attempts and the deletion of excess attempts.
	trimDelay = 5 * time.Second
	// trimInterval is the interval between deletions of old attempts.
	trimInterval = time.Hour
	// trimStep is the maximum number of attempts that one step deletes.
	trimStep = 1000
	// trimPause is the pause between steps, which lets other writes proceed.
	trimPause = 20 * time.Millisecond
)

// trimAttempts deletes up to trimStep attempts that exceed the bounds. It returns the delay before the next call.
func (e *Engine) trimAttempts() (next time.Duration) {
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	more, err := e.o.Attempts.TrimAttempts(ctx, e.o.AttemptBounds, e.now(), trimStep)
	if err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelWarn, "deleting old attempts of webhook deliveries", slog.Any("error", err))
	}
	if more && err == nil {
		return trimPause
	}
	return trimInterval
}
