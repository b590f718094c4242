package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A life identifies a state of the store: logs and fences of another life are invalid in it.
type life struct {
	generation int64
	salt       int64 // distinguishes lives with the same generation; 0 until a new epoch begins
}

// BeginEpochs implements [engine.Shared]. It begins a new epoch of every log, which is required after a restore of
// the database from a backup: clients with earlier cursors then restart at the oldest event and get truncated, as do
// webhook subscriptions, and earlier leases end. It may be called while processes serve; they continue in the new
// epochs within [Options.Poll]. The SQL equivalent is SELECT mcpe.begin_epochs(). See CUR-8, REP-19.
func (s *Store) BeginEpochs(ctx context.Context) error {
	known, _ := s.life()
	err := s.attempt(ctx, func(ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, s.in(`SELECT @.begin_epochs($1)`), known.generation); err != nil {
			return err
		}
		return s.enter(ctx)
	})
	return uncertain(err)
}

// rewound begins new epochs because the database was restored to an older state than a log has delivered. It does
// nothing if another process has begun them since the life as. It always returns an error.
func (s *Store) rewound(ctx context.Context, as life, log string, has, told store.Position) error {
	raised := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var now life
		err := tx.QueryRow(ctx, s.in(`SELECT generation, salt FROM @.store FOR UPDATE`)).Scan(&now.generation, &now.salt)
		if err != nil || now != as {
			return err
		}
		raised = true
		_, err = tx.Exec(ctx, s.in(`SELECT @.begin_epochs()`))
		return err
	})
	if err != nil {
		return classify(err)
	}
	if raised {
		s.options.Logger.Warn("mcp events: the database was restored to an older state, logs begin new epochs", "log", log, "head", has, "told", told)
	}
	if err := s.enter(ctx); err != nil {
		return classify(err)
	}
	return engine.ErrNewEpoch
}

// Generation implements [engine.Shared].
func (s *Store) Generation() uint64 {
	now, _ := s.life()
	return uint64(now.generation)
}
