package operate

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func (a *Admin) Attempts(ctx context.Context, id string) ([]operator.Attempt, error) {
	if _, err := a.Get(ctx, id); err != nil {
		return nil, err
	}
	return a.kept(ctx, id)
}

// kept returns the recorded attempts of a subscription, the latest first. Only the latest attempt of an occurrence has
// a next one: a replay or a manual attempt replaces the retry that an earlier attempt announced.
func (a *Admin) kept(ctx context.Context, id string) ([]operator.Attempt, error) {
	if a.o.Webhooks == nil {
		return nil, nil
	}
	made, err := a.o.Webhooks.Attempts(ctx, id)
	later := make(map[string]bool, len(made))
	for i := range made {
		m := &made[i]
		if later[m.EventID] {
			m.NextAt = time.Time{}
		}
		later[m.EventID] = true
	}
	return made, err
}

// flush waits until all attempts made so far are stored.
func (a *Admin) flush(ctx context.Context) error {
	return wrapped("storing attempts", a.o.Webhooks.Flush(ctx))
}

func (a *Admin) SendAgain(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	if _, err := a.record(ctx, id); err != nil {
		return operator.Attempt{}, err
	}
	w := a.o.Webhooks
	if err := a.flush(ctx); err != nil {
		return operator.Attempt{}, err
	}
	made, err := w.LastAttempt(ctx, id, eventID, seen)
	if err != nil {
		return operator.Attempt{}, err
	}
	if err := w.Ask(ctx, id, store.Action{Kind: store.ActionSendAgain, EventID: eventID, Seen: made.At}); err != nil {
		return operator.Attempt{}, err
	}
	return w.LastAttempt(ctx, id, eventID, time.Time{})
}
