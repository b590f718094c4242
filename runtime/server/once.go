package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrKeyReused is returned by [Admin.Once] for a key under which something else was asked for.
	ErrKeyReused = errors.New("server: this key was used for something else")
	// ErrUnderWay is returned by [Admin.Once] when the first call of a key has not ended, or its process
	// has died: whether it did anything is not known.
	ErrUnderWay = errors.New("server: what was first asked for under this key has not ended")
)

// Waits for the first call of a key.
const (
	onceWait     = 35 * time.Second
	oncePause    = 20 * time.Millisecond
	maxOncePause = time.Second
)

// Once calls do unless it was called under the same key within 10 minutes, and returns its outcome, that
// of the first call when there was one. The store remembers it, for all processes that share it; a custom
// store that is no [store.ActionStore] leaves it to this process's memory. request says what is asked
// for: another one under the same key is [ErrKeyReused]. When do fails nothing is remembered. An outcome
// has at most [store.MaxAction] bytes.
func (a *Admin) Once(ctx context.Context, key string, request []byte, do func() (outcome []byte, err error)) (outcome []byte, err error) {
	actions := a.s.actions()
	hashedKey, hashed := sha256.Sum256([]byte(key)), sha256.Sum256(request)
	name := hex.EncodeToString(hashedKey[:])
	deadline := time.Now().Add(onceWait)
	for pause := oncePause; ; pause = min(2*pause, maxOncePause) {
		stands, fresh, err := actions.ClaimAction(ctx, store.Action{Key: name, Request: hashed[:]})
		switch {
		case err != nil:
			return nil, fmt.Errorf("server: remembering an operator's action: %w", err)
		case fresh:
			return a.s.doOnce(ctx, actions, name, do)
		case !bytes.Equal(stands.Request, hashed[:]):
			return nil, ErrKeyReused
		case stands.Outcome != nil:
			return stands.Outcome, nil
		case time.Until(deadline) < pause:
			return nil, ErrUnderWay
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ErrUnderWay
		}
	}
}

// doOnce is for who has claimed the action.
func (s *Server) doOnce(ctx context.Context, actions store.ActionStore, name string, do func() ([]byte, error)) ([]byte, error) {
	outcome, err := do()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err != nil {
		if forgotten := actions.ForgetAction(ctx, name); forgotten != nil {
			s.log.Internal(ctx, "forgetting an operator's action that failed", forgotten)
		}
		return nil, err
	}
	// Without the outcome the next call of the key learns that this one has not ended: it is not done again.
	if err := actions.FinishAction(ctx, name, outcome); err != nil {
		s.log.Internal(ctx, "remembering what an operator's action came to", err)
	}
	return outcome, nil
}

// storeTime bounds what is stored after whoever asked for it may have gone.
const storeTime = 10 * time.Second

// actions remembers operators' actions.
func (s *Server) actions() store.ActionStore {
	if kept, ok := s.options.Store.(store.ActionStore); ok {
		return kept
	}
	return &s.own
}
