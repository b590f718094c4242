package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// ActionAge is how long an [Actions] remembers an action.
	ActionAge = 10 * time.Minute
	// MaxActions is how many it remembers; beyond it the oldest go first.
	MaxActions = 10_000
	// MaxAction bounds the bytes of an action's Key, Request and Outcome, each.
	MaxAction = 4 << 10
)

// ErrActionGone is returned by FinishAction for a claim that is not remembered any more.
var ErrActionGone = errors.New("store: the action is no longer remembered")

// An Action is what an operator asked for under an idempotency key.
type Action struct {
	// Key identifies it; Request is what was asked for, compared as bytes.
	Key     string
	Request []byte
	// Outcome is what it came to; nil while it is under way, or when who did it has died.
	Outcome []byte
}

// Check refuses what has more than [MaxAction] bytes, and an action without a key.
func (a *Action) Check() error {
	switch {
	case a.Key == "":
		return errors.New("store: an action has no key")
	case len(a.Key) > MaxAction || len(a.Request) > MaxAction || len(a.Outcome) > MaxAction:
		return fmt.Errorf("store: an action has a key of %d, a request of %d and an outcome of %d bytes; each has at most %d",
			len(a.Key), len(a.Request), len(a.Outcome), MaxAction)
	}
	return nil
}

// Actions remembers operators' actions for [ActionAge], so that one that is sent twice is done
// once. What is older counts as unknown. Of processes that share a store each remembers what the others
// were asked for.
type Actions interface {
	// ClaimAction remembers the action unless one with its key is; stands is the one that is remembered
	// then. Of concurrent calls with one key one is fresh: its caller does what was asked for.
	ClaimAction(ctx context.Context, a Action) (stands Action, fresh bool, err error)
	// FinishAction stores what came of a claimed action, or returns [ErrActionGone].
	FinishAction(ctx context.Context, key string, outcome []byte) error
	// ForgetAction forgets an action that came to nothing, so that it can be tried again. An unknown key
	// is no error.
	ForgetAction(ctx context.Context, key string) error
}
