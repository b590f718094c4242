package operate

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
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

// flushTime is the timeout for storing the progress before a query.
const flushTime = 500 * time.Millisecond

// flush stores the progress and attempts of this process, if the store is writable. A query then reads them.
func (a *Admin) flush(ctx context.Context) {
	if a.o.Webhooks != nil {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		_ = a.o.Webhooks.Flush(ctx) // the engine logs a failure and tries again
	}
}

func (a *Admin) SendAgain(ctx context.Context, id, eventID string, seen time.Time) (number uint64, err error) {
	r, err := a.webhookByID(ctx, id)
	if err != nil {
		return 0, err
	}
	if q := r.Requests[store.RequestSend]; q.Key != "" && q.Key == actor.Key(ctx) {
		return q.Number, nil
	}
	if err := a.o.Webhooks.Flush(ctx); err != nil {
		return 0, wrapError("storing attempts", err)
	}
	made, err := a.o.Webhooks.LastAttempt(ctx, id, eventID, seen)
	if err != nil {
		return 0, err
	}
	return a.o.Webhooks.Ask(ctx, id, store.RequestSend, store.Request{Events: []store.Resend{{EventID: eventID, Seen: made.At}}})
}
