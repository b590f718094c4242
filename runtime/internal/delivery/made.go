package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// record keeps what came of an attempt until it is stored with the subscription's progress, and
// returns it.
func (h *Handle) record(u *unsettled, eventID string, r result) operator.Attempt {
	o := &h.e.o
	by := r.by
	if asked := h.asked; asked != nil {
		if by == "" && u.attempts == 1 && u.position <= asked.last {
			by = asked.by
		}
		if h.marks.Base() >= asked.last {
			h.asked = nil
		}
	}
	a := operator.Attempt{EventID: eventID, Event: h.event, Position: u.position, Number: u.attempts, At: r.at, Took: r.took, Category: string(r.category), Status: r.status, AskedBy: by}
	if !u.dropped {
		a.NextAt = u.due
	}
	if o.Attempts == nil || h.shard.o.Store == nil || h.gone() {
		return a
	}
	if h.made == nil {
		h.made = new([]operator.Attempt)
	}
	h.keep(append(*h.made, a))
	h.e.touch(h)
	return a
}

// keep keeps the latest of them, as many as a subscription may have.
func (h *Handle) keep(made []operator.Attempt) {
	if over := len(made) - h.e.o.AttemptBounds.PerSubscription; over > 0 {
		copy(made, made[over:])
		made = made[:len(made)-over]
	}
	*h.made = made
}

// takeMade are the attempts to be stored now.
func (h *Handle) takeMade() []operator.Attempt {
	if h.made == nil {
		return nil
	}
	made := *h.made
	h.made = nil
	return made
}

// giveBackMade takes back attempts that could not be stored.
func (h *Handle) giveBackMade(made []operator.Attempt) {
	if len(made) == 0 || h.gone() {
		return
	}
	made = append(made, h.takeMade()...)
	h.made = new([]operator.Attempt)
	h.keep(made)
}

const (
	// trimSoon is how long after attempts were stored those beyond the bounds are deleted; trimOld
	// is how often age alone is looked at.
	trimSoon = 5 * time.Second
	trimOld  = time.Hour
	// trimStep is how many deletions one step makes, trimPause how long what waits beside it has
	// before the next one.
	trimStep  = 1000
	trimPause = 20 * time.Millisecond
)

// A trimmer deletes attempts beyond the bounds, in the background and in bounded steps.
type trimmer struct {
	step sync.Mutex // held during one

	// Under the engine's lock.
	timer *time.Timer
	at    time.Time // when it fires
	off   bool
}

// begin looks at what an earlier process has left.
func (t *trimmer) begin(e *Engine) {
	if e.o.Attempts != nil {
		t.at = time.Now().Add(trimSoon)
		t.timer = time.AfterFunc(trimSoon, e.trim)
	}
}

// hasten makes sure that a step comes soon; the caller holds the engine's lock.
func (t *trimmer) hasten(within time.Duration) {
	if at := time.Now().Add(within); t.timer != nil && !t.off && at.Before(t.at) {
		t.at = at
		t.timer.Reset(within)
	}
}

func (t *trimmer) stop() {
	t.off = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// wait returns when no step is under way.
func (t *trimmer) wait() {
	t.step.Lock()
	defer t.step.Unlock()
}

// trim makes one step and says when the next one is.
func (e *Engine) trim() {
	t := &e.trimmer
	t.step.Lock()
	defer t.step.Unlock()
	e.mu.Lock()
	off := t.off
	t.at = time.Now().Add(trimOld) // what is stored during the step hastens the next one
	e.mu.Unlock()
	if off {
		return
	}
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	more, err := e.o.Attempts.TrimAttempts(ctx, e.o.AttemptBounds, e.now(), trimStep)
	if err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelWarn, "deleting old attempts of webhook deliveries", slog.Any("error", err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.off {
		return
	}
	t.timer.Reset(time.Until(t.at))
	if more && err == nil {
		t.hasten(trimPause)
	}
}
