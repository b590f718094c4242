package memory

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Actions = (*Store)(nil)

// Actions is an in-memory implementation of [engine.Actions]. The zero value is ready to use.
type Actions struct {
	mu    sync.Mutex
	byKey map[string]*claimed
	order []*claimed // the oldest first; a forgotten action stays until it expires
}

type claimed struct {
	engine.Action
	at time.Time
}

// ClaimAction implements [engine.Actions].
func (m *Actions) ClaimAction(ctx context.Context, a engine.Action) (engine.Action, bool, error) {
	if err := ctx.Err(); err != nil {
		return engine.Action{}, false, err
	}
	if err := a.Check(); err != nil {
		return engine.Action{}, false, err
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trim(now, engine.MaxActions)
	if c := m.byKey[a.Key]; c != nil {
		return c.Action, false, nil
	}
	m.trim(now, engine.MaxActions-1)
	c := &claimed{engine.Action{Key: a.Key, Request: bytes.Clone(a.Request)}, now}
	if m.byKey == nil {
		m.byKey = map[string]*claimed{}
	}
	m.byKey[a.Key] = c
	m.order = append(m.order, c)
	return engine.Action{}, true, nil
}

// trim removes expired actions, and then the oldest actions until at most limit remain.
func (m *Actions) trim(now time.Time, limit int) {
	n := 0
	for n < len(m.order) && (len(m.order)-n > limit || now.Sub(m.order[n].at) >= engine.ActionAge) {
		if c := m.order[n]; m.byKey[c.Key] == c {
			delete(m.byKey, c.Key)
		}
		m.order[n] = nil
		n++
	}
	m.order = m.order[n:]
}

// FinishAction implements [engine.Actions].
func (m *Actions) FinishAction(ctx context.Context, key string, outcome []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := engine.Action{Key: key, Outcome: outcome}
	if err := a.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trim(time.Now(), engine.MaxActions)
	c := m.byKey[key]
	if c == nil {
		return engine.ErrActionGone
	}
	c.Outcome = append([]byte{}, outcome...)
	return nil
}

// ForgetAction implements [engine.Actions].
func (m *Actions) ForgetAction(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
	return nil
}

// ClaimAction implements [engine.Actions].
func (s *Store) ClaimAction(ctx context.Context, a engine.Action) (engine.Action, bool, error) {
	if err := s.Ping(ctx); err != nil {
		return engine.Action{}, false, err
	}
	return s.actions.ClaimAction(ctx, a)
}

// FinishAction implements [engine.Actions].
func (s *Store) FinishAction(ctx context.Context, key string, outcome []byte) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	return s.actions.FinishAction(ctx, key, outcome)
}

// ForgetAction implements [engine.Actions].
func (s *Store) ForgetAction(ctx context.Context, key string) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	return s.actions.ForgetAction(ctx, key)
}
