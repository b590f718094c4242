package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// answerTime is how long an operator waits for what another process was asked for.
const answerTime = 10 * time.Second

// errUnanswered says that a process was asked and has not answered in time.
var errUnanswered = fmt.Errorf("%w within %s", operator.ErrUnanswered, answerTime)

// The answers to an order.
const (
	answerDone = "done"
	answerNone = "none" // there was nothing to do
)

// askAndWait gives an order and returns the answer of the process that does it. What is waited under is an action of the
// store: it is forgotten by itself where who asked has died.
func (a *Admin) askAndWait(ctx context.Context, o orders.Order) (answer string, err error) {
	actions := a.actions()
	o.Answer = "answer " + rand.Text()
	waiting := engine.Action{Key: o.Answer, Request: []byte(o.Kind)}
	if _, _, err := actions.ClaimAction(ctx, waiting); err != nil {
		return "", fmt.Errorf("preparing for an answer: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		if forgotten := actions.ForgetAction(ctx, o.Answer); forgotten != nil {
			a.o.Log.Internal(ctx, "forgetting the answer of another process", forgotten)
		}
	}()
	if err := a.o.Processes.Ask(ctx, o); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errUnanswered)
	defer cancel()
	for pause := oncePause; ; pause = min(2*pause, maxOncePause) {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pause):
		}
		now, _, err := actions.ClaimAction(ctx, waiting)
		switch {
		case err != nil && ctx.Err() != nil: // the next round says why
		case err != nil:
			return "", fmt.Errorf("waiting for an answer: %w", err)
		case now.Outcome != nil:
			return string(now.Outcome), nil
		}
	}
}

// answer tells who has given the order what came of it. Nobody waits any more for an action that is gone.
func (a *Admin) answer(ctx context.Context, o orders.Order, answer string) error {
	if err := a.actions().FinishAction(ctx, o.Answer, []byte(answer)); err != nil && !errors.Is(err, engine.ErrActionGone) {
		return fmt.Errorf("answering another process: %w", err)
	}
	return nil
}
