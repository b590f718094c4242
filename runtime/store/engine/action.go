package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// ActionAge is how long an [Actions] store remembers an action.
	ActionAge = 10 * time.Minute
	// MaxActions is the maximum number of remembered actions. The oldest are forgotten first.
	MaxActions = 10_000
	// MaxAction is the maximum size in bytes of each of an action's Key, Request and Outcome.
	MaxAction = 4 << 10
)

// ErrActionGone is returned by FinishAction for an action that has been forgotten.
var ErrActionGone = errors.New("store: the action is no longer remembered")

// An Action is an operator's request with an idempotency key.
type Action struct {
	// Key identifies the action. Request is the operator's request. Requests are compared byte by byte.
	Key     string
	Request []byte
	// Outcome is the result. It is nil while the action is in progress, or if the process that claimed the action has
	// crashed.
	Outcome []byte
}

// Check returns an error if a field has more than [MaxAction] bytes or the key is empty.
func (a *Action) Check() error {
	switch {
	case a.Key == "":
		return errors.New("store: an action has no key")
	case len(a.Key) > MaxAction || len(a.Request) > MaxAction || len(a.Outcome) > MaxAction:
		return fmt.Errorf("store: an action has a key of %d, a request of %d and an outcome of %d bytes; each may have at most %d",
			len(a.Key), len(a.Request), len(a.Outcome), MaxAction)
	}
	return nil
}

// Actions remembers operator actions for [ActionAge], so a repeated request takes effect only once. Older actions are
// forgotten. Processes that share a store see each other's actions.
type Actions interface {
	// ClaimAction stores the action and returns fresh as true. If an action with the same key exists, ClaimAction
	// returns it as stands instead. For concurrent calls with the same key, only one returns fresh as true: its caller
	// performs the request.
	ClaimAction(ctx context.Context, a Action) (stands Action, fresh bool, err error)
	// FinishAction stores the outcome of a claimed action, or returns [ErrActionGone].
	FinishAction(ctx context.Context, key string, outcome []byte) error
	// ForgetAction removes an action that failed, so that it can be retried. An unknown key is not an error.
	ForgetAction(ctx context.Context, key string) error
}
