package subscriber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SetPaused stores that an operator holds h back, or does no longer, and tells the engine. The caller
// has locked the subscription.
func (w *Subscriptions) SetPaused(ctx context.Context, h *Live, paused bool) error {
	r, err := w.change(ctx, h.ID, func(r *store.Subscription) bool {
		if r.PausedAt.IsZero() != paused {
			return false
		}
		if r.PausedAt = (time.Time{}); paused {
			r.PausedAt = time.Now()
		}
		return true
	})
	switch {
	case errors.Is(err, errGone):
		return fault.NotFound("subscription")
	case err != nil:
		return fmt.Errorf("storing the pause of subscription %s: %w", h.ID, err)
	case paused:
		h.Handle.Pause(r.PausedAt)
	default:
		h.Handle.Unpause()
	}
	return nil
}
