package delivery

import (
	"context"
	"errors"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A replay is what somebody asked for: what had been delivered up to a position.
type replay struct {
	by      string
	last    store.Position
	settled []store.Span // what needed nothing before it, ascending
}

// Rewind delivers again everything after position p and up to last, 0 for no end (SRV-8). Later events stay as they
// are, settled or not. It returns when that is stored.
func (h *Handle) Rewind(ctx context.Context, p, last store.Position) error {
	e := h.e
	e.mu.Lock()
	if h.gone() || e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	again := store.Progress{Base: p}
	if last > 0 {
		again.Settled = h.marks.settledAfter(max(p, last))
	}
	asked := &replay{by: actor.Of(ctx), last: h.marks.Upto(), settled: h.marks.settledAfter(p)}
	if last > 0 {
		asked.last = min(asked.last, last)
	}
	if earlier := h.replaying(); earlier != nil { // the rest of it is delivered as well
		asked.last, asked.settled = max(asked.last, earlier.last), unite(asked.settled, earlier.settled)
	}
	h.asked = asked
	h.forget()
	h.marks = NewWatermark(again)
	h.intake.rewind()
	h.touched, h.untold = true, false
	e.changed(h)
	e.scheduleNow(h)
	e.mu.Unlock()
	return e.Flush(ctx)
}

// ErrNoReplay is returned by [Handle.EndReplay] while none is under way.
var ErrNoReplay = errors.New("delivery: no replay is under way")

// replaying is the replay under way; nil for none.
func (h *Handle) replaying() *replay {
	if h.asked != nil && h.marks.Base() < h.asked.last {
		return h.asked
	}
	return nil
}

// EndReplay ends a replay: events that were settled before it are settled. Attempts under way at them end and count for
// nothing; all else goes on (SRV-8). It returns when that is stored.
func (h *Handle) EndReplay(ctx context.Context) error {
	e := h.e
	e.mu.Lock()
	if h.gone() || e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	asked := h.replaying()
	if h.asked = nil; asked == nil {
		e.mu.Unlock()
		return ErrNoReplay
	}
	for _, u := range slices.Clone(h.window) {
		if within(asked.settled, u.position) {
			h.settle(u)
		}
	}
	h.marks.SkipAll(asked.settled)
	h.intake.woken = true
	h.touched = true
	e.changed(h)
	e.scheduleNow(h)
	e.mu.Unlock()
	return e.Flush(ctx)
}
