package subscriber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SetPaused pauses or resumes a subscription for an operator. It changes the record and notifies the engine.
func (w *Subscriptions) SetPaused(ctx context.Context, id string, paused bool) error {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	h := w.Get(id)
	r, err := w.editRecord(ctx, id, func(r *store.Subscription) bool {
		if r.PausedAt.IsZero() != paused {
			return false
		}
		if r.PausedAt = (time.Time{}); paused {
			r.PausedAt = w.Now()
		}
		return true
	})
	switch {
	case errors.Is(err, errNoRecord):
		return fault.NotFound("subscription")
	case err != nil:
		return fmt.Errorf("storing the pause of subscription %s: %w", id, err)
	case h == nil || !h.Ours():
		return w.notifyOwner(ctx, &r)
	}
	w.applyRecord(h, &r)
	return nil
}
