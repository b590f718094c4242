package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Actions = (*Store)(nil)

// actionAge is an SQL expression for the server's current time minus engine.ActionAge.
var actionAge = fmt.Sprintf("clock_timestamp() - interval '%d seconds'", int(engine.ActionAge.Seconds()))

// maxForgottenActions is the maximum number of expired actions that a claim deletes.
const maxForgottenActions = 100

// ClaimAction implements [engine.Actions].
func (s *Store) ClaimAction(ctx context.Context, a engine.Action) (stands engine.Action, fresh bool, err error) {
	if err := a.Check(); err != nil {
		return engine.Action{}, false, err
	}
	key := []byte(a.Key)
	err = s.write(ctx, func(b *pgx.Batch) {
		stands, fresh = engine.Action{}, false
		// Skip rows that another replica is deleting.
		b.Queue(s.qualify(`DELETE FROM @.actions WHERE key IN (
			SELECT key FROM @.actions WHERE at <= `+actionAge+` ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED)`), int64(maxForgottenActions))
		b.Queue(s.qualify(`DELETE FROM @.actions WHERE key = $1 AND at <= `+actionAge), key)
		b.Queue(s.qualify(`INSERT INTO @.actions (key, request, at) VALUES ($1, $2, clock_timestamp()) ON CONFLICT (key) DO NOTHING RETURNING true`),
			key, scalar.Bytes(a.Request)).QueryRow(func(row pgx.Row) error {
			if err := row.Scan(&fresh); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
		// The first condition is cheap and usually false.
		b.Queue(s.qualify(`DELETE FROM @.actions WHERE (SELECT max(sequence) - min(sequence) FROM @.actions) >= $1
			AND sequence <= (SELECT sequence FROM @.actions ORDER BY sequence DESC OFFSET $1 LIMIT 1)`),
			int64(engine.MaxActions))
		// A separate statement sees a row that the previous statement waited for.
		b.Queue(s.qualify(`SELECT request, outcome FROM @.actions WHERE key = $1`), key).QueryRow(func(row pgx.Row) error {
			return row.Scan(&stands.Request, &stands.Outcome)
		})
	})
	if err != nil {
		return engine.Action{}, false, fmt.Errorf("claiming an action: %w", err)
	}
	if fresh {
		return engine.Action{}, true, nil
	}
	stands.Key = a.Key
	return stands, false, nil
}

// FinishAction implements [engine.Actions].
func (s *Store) FinishAction(ctx context.Context, key string, outcome []byte) error {
	a := engine.Action{Key: key, Outcome: outcome}
	if err := a.Check(); err != nil {
		return err
	}
	changed, err := s.execChange(ctx, `UPDATE @.actions SET outcome = $2 WHERE key = $1 AND at > `+actionAge, []byte(key), scalar.Bytes(outcome))
	if err == nil && !changed {
		err = engine.ErrActionGone
	}
	return err
}

// ForgetAction implements [engine.Actions].
func (s *Store) ForgetAction(ctx context.Context, key string) error {
	return s.write(ctx, func(b *pgx.Batch) { b.Queue(s.qualify(`DELETE FROM @.actions WHERE key = $1`), []byte(key)) })
}
