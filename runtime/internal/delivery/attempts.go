package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// record keeps the result of an attempt until it is stored with the subscription's progress, and returns it.
func (h *Handle) record(u *unsettled, eventID string, r result) operator.Attempt {
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
	if o.Attempts == nil || h.gone() {
		return a
	}
	if h.made == nil {
		h.made = new([]operator.Attempt)
	}
	h.keep(append(*h.made, a))
	h.e.touch(h)
	return a
}

// keep keeps the newest attempts, up to the bound per subscription.
func (h *Handle) keep(made []operator.Attempt) {
	if over := len(made) - h.e.o.AttemptBounds.PerSubscription; over > 0 {
		copy(made, made[over:])
		made = made[:len(made)-over]
	}
	*h.made = made
}

// takeMade returns the attempts to store now, and clears them.
func (h *Handle) takeMade() []operator.Attempt {
	if h.made == nil {
		return nil
	}
	made := *h.made
	h.made = nil
	return made
}

// giveBackMade returns attempts that could not be stored.
func (h *Handle) giveBackMade(made []operator.Attempt) {
	if len(made) == 0 || h.gone() {
		return
	}
	made = append(made, h.takeMade()...)
	h.made = new([]operator.Attempt)
	h.keep(made)
}

const (
	// trimSoon is the time from a write of attempts to the deletion of attempts beyond the bounds; trimOld is the
	// interval of deletion by age.
	trimSoon = 5 * time.Second
	trimOld  = time.Hour
	// trimStep is the number of deletions per step; trimPause is the pause between steps, in which other writes can
	// proceed.
	trimStep  = 1000
	trimPause = 20 * time.Millisecond
)

// trim deletes attempts beyond the bounds, a bounded number at a time.
func (e *Engine) trim() (next time.Duration) {
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	more, err := e.o.Attempts.TrimAttempts(ctx, e.o.AttemptBounds, e.now(), trimStep)
	if err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelWarn, "deleting old attempts of webhook deliveries", slog.Any("error", err))
	}
	if more && err == nil {
		return trimPause
	}
	return trimOld
}
