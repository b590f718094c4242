// Package performed waits for the outcome of operators' requests.
package performed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// limit is the maximum time until a request is performed.
const limit = 2 * time.Minute

// An Admin is an [operator.Admin] whose requests return once they are performed. They return the failure of a request as
// an error.
type Admin struct{ operator.Admin }

// Resume waits for [operator.Admin.Resume].
func (a Admin) Resume(ctx context.Context, id string) error {
	number, err := a.Admin.Resume(ctx, id)
	return a.await(ctx, id, store.RequestResume, number, err)
}

// Replay waits for [operator.Admin.Replay].
func (a Admin) Replay(ctx context.Context, id, cursor string, last store.Position) error {
	number, err := a.Admin.Replay(ctx, id, cursor, last)
	return a.await(ctx, id, store.RequestReplay, number, err)
}

// EndReplay waits for [operator.Admin.EndReplay].
func (a Admin) EndReplay(ctx context.Context, id string) error {
	number, err := a.Admin.EndReplay(ctx, id)
	return a.await(ctx, id, store.RequestReplay, number, err)
}

// End waits for [operator.Admin.End].
func (a Admin) End(ctx context.Context, id string, e *events.Error) error {
	number, err := a.Admin.End(ctx, id, e)
	return a.await(ctx, id, store.RequestEnd, number, err)
}

// RaiseGap waits for [operator.Admin.RaiseGap] of a webhook subscription.
func (a Admin) RaiseGap(ctx context.Context, t operator.Target) (int, error) {
	n, err := a.Admin.RaiseGap(ctx, t)
	i, getErr := a.Get(ctx, t.ID)
	if err != nil || getErr != nil {
		return n, err
	}
	for _, q := range i.Requests {
		if q.Kind == string(store.RequestGap) {
			return n, a.await(ctx, t.ID, store.RequestGap, q.Number, nil)
		}
	}
	return n, nil
}

// Terminate waits for [operator.Admin.Terminate] of a webhook subscription.
func (a Admin) Terminate(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	n, err := a.Admin.Terminate(ctx, t, e)
	if err == nil && t.ID != "" {
		err = a.await(ctx, t.ID, store.RequestEnd, 1, nil)
	}
	return n, err
}

// SendAgain waits for [operator.Admin.SendAgain] and returns the latest attempt.
func (a Admin) SendAgain(ctx context.Context, id, eventID string, seen time.Time) (operator.Attempt, error) {
	number, err := a.Admin.SendAgain(ctx, id, eventID, seen)
	if err := a.await(ctx, id, store.RequestSend, number, err); err != nil {
		return operator.Attempt{}, err
	}
	made, err := a.Attempts(ctx, id)
	if err != nil {
		return operator.Attempt{}, err
	}
	for _, m := range made {
		if m.EventID == eventID {
			return m, nil
		}
	}
	return operator.Attempt{}, fmt.Errorf("no attempt at %s is recorded", eventID)
}

// await waits until the request with the number is performed, unless err is non-nil.
func (a Admin) await(ctx context.Context, id string, kind store.RequestKind, number uint64, err error) error {
	if err != nil {
		return err
	}
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		i, err := a.Get(ctx, id)
		if errors.Is(err, events.ErrNotFound) && kind == store.RequestEnd {
			return nil
		}
		if err != nil {
			return err
		}
		for _, q := range i.Requests {
			if q.Kind == string(kind) && q.Done >= number {
				if q.Failure != "" {
					return errors.New(q.Failure)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("request %d to %s of %s is not performed within %v", number, kind, id, limit)
}
