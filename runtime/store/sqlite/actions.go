package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Actions = (*Store)(nil)

// ClaimAction implements [engine.Actions].
func (s *Store) ClaimAction(ctx context.Context, a engine.Action) (stands engine.Action, fresh bool, err error) {
	if err := a.Check(); err != nil {
		return engine.Action{}, false, err
	}
	err = s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		stands, fresh = engine.Action{}, false
		now := time.Now()
		if _, err := w.exec(ctx, "DELETE FROM actions WHERE at <= ?", now.Add(-engine.ActionAge).UnixNano()); err != nil {
			return err
		}
		r, err := w.exec(ctx, "INSERT OR IGNORE INTO actions (key, request, at) VALUES (?, ?, ?)", a.Key, scalar.Bytes(a.Request), now.UnixNano())
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			stands.Key = a.Key
			var finished bool
			err := w.queryRow(ctx, "SELECT request, outcome IS NOT NULL, outcome FROM actions WHERE key = ?", []any{a.Key}, &stands.Request, &finished, &stands.Outcome)
			if finished {
				stands.Outcome = scalar.Bytes(stands.Outcome)
			}
			return err
		}
		fresh = true
		var span int64 // an upper bound of their number: counting would make every claim more expensive
		if err := w.queryRow(ctx, "SELECT (SELECT max(sequence) FROM actions) - (SELECT min(sequence) FROM actions) + 1", nil, &span); err != nil || span <= engine.MaxActions {
			return err
		}
		_, err = w.exec(ctx, "DELETE FROM actions WHERE sequence IN (SELECT sequence FROM actions ORDER BY sequence DESC LIMIT -1 OFFSET ?)", engine.MaxActions)
		return err
	}, nil)
	if err != nil {
		return engine.Action{}, false, fmt.Errorf("claiming an action: %w", err)
	}
	return stands, fresh, nil
}

// FinishAction implements [engine.Actions].
func (s *Store) FinishAction(ctx context.Context, key string, outcome []byte) error {
	a := engine.Action{Key: key, Outcome: outcome}
	if err := a.Check(); err != nil {
		return err
	}
	n, err := s.execChange(ctx, "UPDATE actions SET outcome = ? WHERE key = ? AND at > ?", scalar.Bytes(outcome), key, time.Now().Add(-engine.ActionAge).UnixNano())
	if err == nil && n == 0 {
		err = engine.ErrActionGone
	}
	return err
}

// ForgetAction implements [engine.Actions].
func (s *Store) ForgetAction(ctx context.Context, key string) error {
	_, err := s.execChange(ctx, "DELETE FROM actions WHERE key = ?", key)
	return err
}
