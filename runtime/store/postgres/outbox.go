package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// EmitPgx inserts a prepared occurrence in the author's transaction. The store appends the occurrence after the
// transaction commits, and never if it does not. The insert adds a row and takes no lock for which other transactions
// wait. Occurrences of one transaction keep their order. If a transaction begins after another one committed, its
// occurrences come after those of the other. See REP-20.
//
// The transaction must be in the same database; the role needs USAGE on the schema and its sequences and INSERT on
// its outbox. An id that is already retained with other data (OCC-5) is detected when the occurrence is moved to the
// log: the store logs the error and drops the occurrence. An invalid occurrence is then set aside, see
// [Store.Rejected].
func (s *Store) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	return emitted(s.outbox.EmitPgx(ctx, tx, p))
}

// EmitSQL is like [Store.EmitPgx] for a transaction of database/sql, with any PostgreSQL driver that supports $1
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
