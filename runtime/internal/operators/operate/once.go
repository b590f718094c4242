package operate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Limits on the time that a call waits for the first call with the same key.
const (
	onceWait     = 35 * time.Second
	oncePause    = 20 * time.Millisecond
	maxOncePause = time.Second
)

func (a *Admin) Once(ctx context.Context, key string, request []byte, do func() (outcome []byte, err error)) (outcome []byte, err error) {
	actions := a.actionStore()
	hashedKey, hashed := sha256.Sum256([]byte(key)), sha256.Sum256(request)
	name := hex.EncodeToString(hashedKey[:])
	deadline := time.Now().Add(onceWait)
	for pause := oncePause; ; pause = min(2*pause, maxOncePause) {
		stands, fresh, err := actions.ClaimAction(ctx, engine.Action{Key: name, Request: hashed[:]})
		switch {
		case err != nil:
			return nil, fmt.Errorf("server: storing an operator's action: %w", err)
		case fresh:
			return a.doOnce(ctx, actions, name, do)
		case !bytes.Equal(stands.Request, hashed[:]):
			return nil, operator.ErrKeyReused
		case stands.Outcome != nil:
			return stands.Outcome, nil
		case time.Until(deadline) < pause:
			return nil, operator.ErrUnderWay
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, operator.ErrUnderWay
		}
	}
}

// doOnce calls the function do and stores its outcome. The caller must have claimed the action.
func (a *Admin) doOnce(ctx context.Context, actions engine.Actions, name string, do func() ([]byte, error)) ([]byte, error) {
	outcome, err := do()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err != nil {
		if forgotten := actions.ForgetAction(ctx, name); forgotten != nil {
			a.o.Log.Internal(ctx, "forgetting an operator's action that failed", forgotten)
		}
		return nil, err
	}
	// If storing the outcome fails, the next call with the key returns ErrUnderWay and does not repeat the action.
	if err := actions.FinishAction(ctx, name, outcome); err != nil {
		a.o.Log.Internal(ctx, "remembering what an operator's action came to", err)
	}
	return outcome, nil
}

// finishTimeout is the timeout for storing the outcome. The outcome is stored even if the caller's context is done.
const finishTimeout = 10 * time.Second

// actionStore returns the store of operators' actions. If the server's store does not store actions, it returns a.own.
func (a *Admin) actionStore() engine.Actions {
	if kept, ok := a.o.Store.(engine.Actions); ok {
		return kept
	}
	return &a.own
}
