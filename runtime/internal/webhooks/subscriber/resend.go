package subscriber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// errUnderWay is returned if a request to resend the occurrence is pending, or another attempt at it was made.
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

// sendAll repeats the attempts at occurrences, one after another. It does not repeat an attempt if another one has been
// made since the operator's request, or is in flight.
func (w *Subscriptions) sendAll(ctx context.Context, h *Live, all []store.Resend) error {
	var failed []error
	for _, e := range all {
		err := w.sendAgain(ctx, h, e.EventID, e.Seen)
		switch {
		case errors.Is(err, delivery.ErrClosed):
			return err
		case err != nil && !errors.Is(err, errUnderWay):
			failed = append(failed, fmt.Errorf("event %s: %w", e.EventID, err))
		}
	}
	return errors.Join(failed...)
}

// sendAgain repeats the attempt at an occurrence.
func (w *Subscriptions) sendAgain(ctx context.Context, h *Live, eventID string, seen time.Time) error {
	if err := w.engine.Flush(ctx); err != nil {
		return err
	}
	made, err := w.LastAttempt(ctx, h.ID(), eventID, seen)
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
