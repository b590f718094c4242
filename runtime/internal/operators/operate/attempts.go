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
	return a.storedAttempts(ctx, id)
}

// storedAttempts returns the stored attempts of a subscription, newest first. NextAt is only set for the latest attempt
// at an occurrence, because a replay or a manual attempt replaces a scheduled retry.
func (a *Admin) storedAttempts(ctx context.Context, id string) ([]operator.Attempt, error) {
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

// flushAttempts waits until all attempts made before the call are stored.
func (a *Admin) flushAttempts(ctx context.Context) error {
	return wrapError("storing attempts", a.o.Webhooks.Flush(ctx))
}

func (a *Admin) SendAgain(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	if _, err := a.webhookByID(ctx, id); err != nil {
		return operator.Attempt{}, err
	}
	w := a.o.Webhooks
	if err := a.flushAttempts(ctx); err != nil {
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
