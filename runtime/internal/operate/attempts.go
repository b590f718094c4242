package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

func (a *Admin) Attempts(ctx context.Context, id string) ([]operator.Attempt, error) {
	if _, err := a.Get(ctx, id); err != nil {
		return nil, err
	}
	return a.kept(ctx, id)
}

// kept are the attempts at a subscription that are kept, the latest first.
func (a *Admin) kept(ctx context.Context, id string) ([]operator.Attempt, error) {
	if a.o.Attempts == nil {
		return nil, nil
	}
	found, err := a.o.Attempts.Attempts(ctx, id, a.o.Kept)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %s: %w", id, err)
	}
	return found, nil
}

// flush waits until the attempts that were made are kept.
func (a *Admin) flush(ctx context.Context) error {
	return wrapped("storing attempts", a.o.Webhooks.Flush(ctx))
}

// latest returns the latest kept attempt at an occurrence; nil for none.
func (a *Admin) latest(ctx context.Context, id, eventID string) (*operator.Attempt, error) {
	made, err := a.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(made, func(m operator.Attempt) bool { return m.EventID == eventID }); i >= 0 {
		return &made[i], nil
	}
	return nil, nil
}

// known is latest for an occurrence that is to be sent again: the one that was seen, unless seen is zero.
func (a *Admin) known(ctx context.Context, id, eventID string, seen time.Time) (*operator.Attempt, error) {
	made, err := a.latest(ctx, id, eventID)
	switch {
	case err != nil:
		return nil, err
	case made == nil:
		return nil, fmt.Errorf("no delivery attempt of it is stored: %w", fault.NotFound("occurrence"))
	case !seen.IsZero() && !made.At.Equal(seen):
		return nil, errUnderWay
	}
	return made, nil
}

func (a *Admin) SendAgain(ctx context.Context, id, eventID string) (operator.Attempt, error) {
	return a.sendAgain(ctx, id, eventID, time.Time{})
}

// sendAgain is SendAgain unless another attempt was made than the one that was seen, at that time; zero for whatever was
// made. So two who want to make up for the same failure send once.
func (a *Admin) sendAgain(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	free, ok := a.sending.take(id, eventID)
	if !ok {
		return operator.Attempt{}, errUnderWay
	}
	defer free()
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return a.sendAgainAway(ctx, id, eventID, seen)
	}
	if err != nil {
		return operator.Attempt{}, err
	}
	unlock() // whatever ends it meanwhile is not held up by an endpoint
	if err := a.flush(ctx); err != nil {
		return operator.Attempt{}, err
	}
	made, err := a.known(ctx, id, eventID, seen)
	if err != nil {
		return operator.Attempt{}, err
	}
	again, err := h.Handle.SendAgain(ctx, *made)
	switch {
	case errors.Is(err, delivery.ErrLost):
		return operator.Attempt{}, fmt.Errorf("it is no longer in the log: %w", fault.NotFound("occurrence"))
	case errors.Is(err, delivery.ErrClosed):
		return operator.Attempt{}, fault.NotFound("subscription")
	case errors.Is(err, delivery.ErrUnderWay):
		return operator.Attempt{}, errUnderWay
	}
	return again, err
}

var errUnderWay = fmt.Errorf("%w: an attempt at this occurrence", operator.ErrUnderWay)

// sends are the occurrences that are being sent again, each to one subscription.
type sends struct {
	mu   sync.Mutex
	held map[[2]string]bool
}

// take has the caller send the occurrence until free is called; false when somebody does.
func (s *sends) take(id, eventID string) (free func(), ok bool) {
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

// againEvery is how often SendAgain looks for the attempt that another process was asked for.
const againEvery = 50 * time.Millisecond

// sendAgainAway is SendAgain for a subscription that another process delivers to.
func (a *Admin) sendAgainAway(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	before, err := a.known(ctx, id, eventID, seen)
	if err != nil {
		return operator.Attempt{}, err
	}
	if err := a.o.Processes.Ask(ctx, orders.Order{Kind: orders.Again, Target: &operator.Target{ID: id}, EventID: eventID, Seen: before.At, Actor: actor.Of(ctx)}); err != nil {
		return operator.Attempt{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errUnanswered)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return operator.Attempt{}, context.Cause(ctx)
		case <-time.After(againEvery):
		}
		now, err := a.latest(ctx, id, eventID)
		if err != nil && ctx.Err() == nil {
			return operator.Attempt{}, err
		}
		if now != nil && now.At.After(before.At) {
			return *now, nil
		}
	}
}

// sendAgainHere makes an attempt for an operator who has asked another process.
func (a *Admin) sendAgainHere(ctx context.Context, id string, what orders.Order) {
	_, err := a.sendAgain(ctx, id, what.EventID, what.Seen)
	if errors.Is(err, operator.ErrUnderWay) {
		return // the other one gets what that attempt comes to
	}
	if err == nil {
		err = a.o.Webhooks.Flush(ctx) // the other one waits for it
	}
	if err != nil {
		a.o.Log.Internal(ctx, "sending an occurrence again for another process", err)
	}
}
