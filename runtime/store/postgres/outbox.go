package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// EmitPgx puts a prepared occurrence into the author's transaction: it is appended after the commit,
// and never when that does not happen. The transaction takes a row of its own and no lock that
// another one waits for. Occurrences of one transaction keep their order; what a transaction emits
// that began after another's commit comes after the other's. See REP-20.
//
// The transaction is one of the same database; the role needs USAGE on the schema and its sequences
// and INSERT on its outbox. An id that turns out to be retained with other data (OCC-5) is found when
// the occurrence is moved: it is logged there and dropped. What is found to be no occurrence then is put
// aside, see [Store.Rejected].
func (s *Store) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	return emitted(s.outbox.EmitPgx(ctx, tx, p))
}

// EmitSQL is [Store.EmitPgx] for a transaction of database/sql, by any driver for PostgreSQL that takes
// $1.
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
