package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// EmitPgx inserts a prepared occurrence within the author's transaction. The store appends the occurrence only after
// the transaction commits. The insert adds a row and does not block other transactions. Occurrences of one transaction
// keep their order. If a transaction begins after another one has committed, its occurrences follow those of the
// earlier transaction. See REP-20.
//
// The transaction must be in the same database. The role needs USAGE on the schema and its sequences, and INSERT on its
// outbox. When the occurrence is moved to the log, the store checks its id. If the id is already retained with
// different data (OCC-5), the store logs an error and drops the occurrence. An invalid occurrence is rejected; see
// [Store.Rejected].
func (s *Store) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	return emitted(s.outbox.EmitPgx(ctx, tx, p))
}

// EmitSQL is like [Store.EmitPgx], but for database/sql transactions. It supports any PostgreSQL driver with $1
// placeholders.
func (s *Store) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	return emitted(s.outbox.EmitSQL(ctx, tx, p))
}

func emitted(err error) error {
	if err != nil {
		return fmt.Errorf("emit in transaction: %w", classify(err))
	}
	return nil
}
