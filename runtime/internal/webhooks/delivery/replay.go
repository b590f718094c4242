package delivery

import (
	"context"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Replay describes the redelivery of occurrences up to a position.
type Replay struct {
	By      string // the operator who requested it
	Last    store.Position
	Settled []store.Span // the positions that were settled when it began, ascending
}

// Rewind redelivers the occurrences after position p up to last (SRV-8). A last of 0 means no upper limit. Later
// events keep their state. Rewind calls begun to store the replay before it stores the new progress, which no longer
// contains the positions settled so far. If begun returns false, the stored progress stays before the replay, and Rewind
// returns [ErrClosed]. Otherwise, it returns after the new progress has been stored. Calls must not be concurrent.
func (h *Handle) Rewind(ctx context.Context, p, last store.Position, begun func(*Replay) bool) error {
	e := h.e
	e.mu.Lock()
	if h.hasEnded() || e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	again := store.Progress{Base: p}
	if last > 0 {
		again.Settled = h.marks.settledAfter(max(p, last))
	}
	asked := &Replay{By: actor.Of(ctx), Last: h.marks.Upto(), Settled: h.marks.settledAfter(p)}
	if n := len(asked.Settled); n > 0 { // after a restart, positions above Upto may be settled
		asked.Last = max(asked.Last, asked.Settled[n-1].To)
	}
	if last > 0 {
		asked.Last = min(asked.Last, last)
	}
	if earlier := h.replaying(); earlier != nil { // deliver its remaining events as well
		asked.Last, asked.Settled = max(asked.Last, earlier.Last), mergeSpans(asked.Settled, earlier.Settled)
	}
	h.asked = asked
	before := h.progress()
	before.Open = true
	h.before = &before
	h.dropWindow()
	h.marks = NewWatermark(again)
	h.intake.rewind()
	h.touched, h.untold = true, false
	e.markDirty(h)
	e.scheduleNow(h)
	e.mu.Unlock()
	if !begun(asked) {
		return ErrClosed
	}
	e.mu.Lock()
	if h.hasEnded() {
		e.mu.Unlock()
		return ErrClosed
	}
	h.before, h.touched = nil, true
	e.markDirty(h)
	e.mu.Unlock()
	return h.flush(ctx)
}

// flush stores changed progress. It returns [ErrClosed] if the shard has been closed before.
func (h *Handle) flush(ctx context.Context) error {
	if err := h.e.Flush(ctx); err != nil {
		return err
	}
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	if h.hasEnded() && h.dirty {
		return ErrClosed
	}
	return nil
}

// Replaying returns the replay in progress, or nil. The caller must not modify it.
func (h *Handle) Replaying() *Replay {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.replaying()
}

// replaying is like Replaying. The engine's lock must be held.
func (h *Handle) replaying() *Replay {
	if h.asked != nil && h.marks.Base() < h.asked.Last {
		return h.asked
	}
	return nil
}

// EndReplay ends the replay in progress, if any. Occurrences that were settled before the replay are settled again
// without a delivery, and the results of their attempts in flight are ignored. Other deliveries continue (SRV-8). It
// returns after the new progress has been stored.
func (h *Handle) EndReplay(ctx context.Context) error {
	e := h.e
	e.mu.Lock()
	if h.hasEnded() || e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	asked := h.replaying()
	if h.asked = nil; asked == nil {
		e.mu.Unlock()
		return nil
	}
	for _, u := range slices.Clone(h.window) {
		if spansContain(asked.Settled, u.position) {
			h.settleEvent(u)
		}
	}
	h.marks.SkipAll(asked.Settled)
	h.intake.woken = true
	h.touched = true
	e.markDirty(h)
	e.scheduleNow(h)
	e.mu.Unlock()
	return h.flush(ctx)
}
