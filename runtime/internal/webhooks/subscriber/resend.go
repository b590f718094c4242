package subscriber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// errUnderWay is returned if another caller is resending the occurrence or has just resent it.
var errUnderWay = fmt.Errorf("%w: an attempt at this occurrence", operator.ErrUnderWay)

// Attempts returns the stored attempts of a subscription, newest first.
func (w *Subscriptions) Attempts(ctx context.Context, id string) ([]operator.Attempt, error) {
	d := &w.o.Delivery
	if d.Attempts == nil {
		return nil, nil
	}
	found, err := d.Attempts.Attempts(ctx, id, d.AttemptBounds.PerSubscription)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %s: %w", id, err)
	}
	return found, nil
}

// LastAttempt returns the latest stored attempt at an occurrence. If seen is not zero and the attempt was made at a
// different time, the error is [operator.ErrUnderWay].
func (w *Subscriptions) LastAttempt(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	all, err := w.Attempts(ctx, id)
	if err != nil {
		return operator.Attempt{}, err
	}
	i := slices.IndexFunc(all, func(m operator.Attempt) bool { return m.EventID == eventID })
	switch {
	case i < 0:
		return operator.Attempt{}, fmt.Errorf("no delivery attempt of it is stored: %w", fault.NotFound("occurrence"))
	case !seen.IsZero() && !all[i].At.Equal(seen):
		return operator.Attempt{}, errUnderWay
	}
	return all[i], nil
}

// A resendTracker tracks the occurrences of each subscription that are being resent.
type resendTracker struct {
	mu   sync.Mutex
	held map[[2]string]bool
}

// reserve reserves the occurrence for the caller until free is called. It returns false if another caller is resending
// it.
func (s *resendTracker) reserve(id, eventID string) (free func(), ok bool) {
	k := [2]string{id, eventID}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[k] {
		return nil, false
	}
	if s.held == nil {
		s.held = map[[2]string]bool{}
	}
	s.held[k] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, k)
	}, true
}

// sendAgain repeats the attempt at an occurrence.
func (w *Subscriptions) sendAgain(ctx context.Context, h *Live, eventID string, seen time.Time) error {
	free, ok := w.sending.reserve(h.ID, eventID)
	if !ok {
		return errUnderWay
	}
	defer free()
	if err := w.engine.Flush(ctx); err != nil {
		return err
	}
	made, err := w.LastAttempt(ctx, h.ID, eventID, seen)
	if err != nil {
		return err
	}
	_, err = h.Handle.SendAgain(ctx, made)
	switch {
	case errors.Is(err, delivery.ErrLost):
		return fmt.Errorf("it is no longer in the log: %w", fault.NotFound("occurrence"))
	case errors.Is(err, delivery.ErrUnderWay):
		return errUnderWay
	}
	return err
}
