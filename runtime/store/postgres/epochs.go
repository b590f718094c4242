package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An incarnation identifies the store between two restores or failovers. Logs and fences of other incarnations are
// invalid.
type incarnation struct {
	generation int64
	salt       int64 // distinguishes incarnations with the same generation; 0 until a new epoch begins
}

// BeginEpochs implements [engine.Shared]. It begins a new epoch for every log, which is required after the database was
// restored from a backup. Clients with earlier cursors and webhook subscriptions then restart at the oldest event and
// are notified of the gap (truncated). Earlier leases end. Processes can keep running during the call and switch to the
// new epochs within [Options.Poll]. The SQL equivalent is SELECT mcpe.begin_epochs(). See CUR-8, REP-19.
func (s *Store) BeginEpochs(ctx context.Context) error {
	known, _ := s.currentIncarnation()
	err := s.callWithRetry(ctx, func(ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, s.qualify(`SELECT @.begin_epochs($1)`), known.generation); err != nil {
			return err
		}
		return s.joinGeneration(ctx)
	})
	return wrapUncertain(err)
}

// beginAfterRestore begins new epochs because the database was restored to a state without some entries that a log has
// delivered. If the store is no longer in the given incarnation, another process has already begun new epochs. It
// always returns an error.
func (s *Store) beginAfterRestore(ctx context.Context, as incarnation, log string, has, told store.Position) error {
	raised := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var now incarnation
		err := tx.QueryRow(ctx, s.qualify(`SELECT generation, salt FROM @.store FOR UPDATE`)).Scan(&now.generation, &now.salt)
		if err != nil || now != as {
			return err
		}
		raised = true
		_, err = tx.Exec(ctx, s.qualify(`SELECT @.begin_epochs()`))
		return err
	})
	if err != nil {
		return classify(err)
	}
	if raised {
		s.options.Logger.Warn("mcp events: the database was restored to an older state, logs begin new epochs", "log", log, "head", has, "told", told)
	}
	if err := s.joinGeneration(ctx); err != nil {
		return classify(err)
	}
	return engine.ErrNewEpoch
}

// Generation implements [engine.Shared].
func (s *Store) Generation() uint64 {
	now, _ := s.currentIncarnation()
	return uint64(now.generation)
}
