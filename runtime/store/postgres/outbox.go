package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const outboxColumns = "(" + outboxRow + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"

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
	args, err := outboxArgs(p)
	if err != nil || args == nil {
		return err
	}
	// Sent unnamed, whatever the author's connection does by default.
	if _, err := tx.Exec(ctx, s.in(`INSERT INTO @.outbox `+outboxColumns), append([]any{pgx.QueryExecModeExec}, args...)...); err != nil {
		return fmt.Errorf("emit in transaction: %w", classify(err))
	}
	return nil
}

// EmitSQL is [Store.EmitPgx] for a transaction of database/sql, by any driver for PostgreSQL that takes
// $1.
func (s *Store) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	args, err := outboxArgs(p)
	if err != nil || args == nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.in(`INSERT INTO @.outbox `+outboxColumns), args...); err != nil {
		return fmt.Errorf("emit in transaction: %w", classify(err))
	}
	return nil
}

// outboxArgs returns nil for an occurrence that is for nobody.
func outboxArgs(p store.Prepared) ([]any, error) {
	o := p.Outgoing()
	if engine.ForNobody(&o.Entry) {
		return nil, nil
	}
	if o.Log == "" || len(o.Log) > maxName {
		return nil, fmt.Errorf("emit in transaction: the name of its log has 1 to %d bytes, this one %d", maxName, len(o.Log))
	}
	r, err := newRow(&o.Entry)
	if err != nil {
		return nil, err
	}
	return []any{o.Log, r.id, r.timestamp, r.data, null(r.meta), null(r.targets), o.Once, int64(min(o.Above, 1<<63-1))}, nil
}

// null is NULL for every driver: some send a nil []byte as an empty one.
func null(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
