// Package outbox reads and modifies the two tables of an outbox in PostgreSQL. The table outbox contains the
// occurrences emitted in the author's transactions. The table rejected contains the invalid occurrences. A
// [Mover] moves rows to their logs. Package postgres provides a Mover for logs in the same database, and package
// pgoutbox provides one for any other store. Each Mover uses tables in a separate schema. The package makes no
// compatibility promise.
//
// A role with permission to insert into the table outbox is not otherwise trusted. Rows are validated before they are
// moved, and their ids and transaction numbers are not trusted. See REP-20.
package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// columns lists the columns of both tables.
	columns = "log, event_id, timestamp, data, meta, targets, once, above"
	// MaxName is the maximum length in bytes of a log's name.
	MaxName = 1024
	// maxWaiting is the maximum size in bytes of a row and of a page. A larger row is rejected without being read.
	maxWaiting = 16 << 20
)

// Tables contains the SQL statements that create the tables. An "@" before a "." is a placeholder for the schema.
//
//go:embed tables.sql
var Tables string

// A Table is the outbox in one schema, with the state that its owner keeps between steps. Create one Table per schema
// and process.
type Table struct {
	// Schema is the quoted name of the schema.
	Schema string
	Logger *slog.Logger

	sweeping sweepState
}

// qualify replaces each "@" before a "." with the schema.
func (t *Table) qualify(sql string) string { return strings.ReplaceAll(sql, "@.", t.Schema+".") }

// A DB executes statements in the table's database.
type DB interface {
	// Read runs a query and passes its rows to f. f runs again if the query is retried.
	Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error
	// Write runs a statement and returns the number of affected rows.
	Write(ctx context.Context, sql string, args ...any) (affected int64, err error)
}

// EmitPgx inserts an occurrence as one row within the author's transaction. It does not acquire locks that block other
// transactions.
func (t *Table) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	args, err := emitArgs(p)
	if err == nil && args != nil {
		// Use an unnamed statement, regardless of the default of the author's connection.
		_, err = tx.Exec(ctx, t.qualify(emitSQL), append([]any{pgx.QueryExecModeExec}, args...)...)
	}
	return err
}

// EmitSQL is like [Table.EmitPgx], but for database/sql transactions. It supports any PostgreSQL driver with $1
// placeholders.
func (t *Table) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	args, err := emitArgs(p)
	if err == nil && args != nil {
		_, err = tx.ExecContext(ctx, t.qualify(emitSQL), args...)
	}
	return err
}

const emitSQL = `INSERT INTO @.outbox (` + columns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// emitArgs returns the arguments of emitSQL, or nil for an occurrence without recipients.
func emitArgs(p store.Prepared) ([]any, error) {
	o := p.Outgoing()
	e := &o.Entry
	if engine.ForNobody(e) {
		return nil, nil
	}
	if o.Log == "" || len(o.Log) > MaxName {
		return nil, fmt.Errorf("the name of its log has %[2]d bytes, must be 1 to %[1]d", MaxName, len(o.Log))
	}
	data, targets := []byte(e.Data), []byte(nil)
	if data == nil {
		data = []byte{}
	}
	if e.Targets != nil {
		var err error
		if targets, err = json.Marshal(e.Targets); err != nil {
			return nil, err
		}
	}
	return []any{o.Log, []byte(e.EventID), e.Timestamp.String(), data, nullIfEmpty(e.Meta), nullIfEmpty(targets), o.Once, int64(min(o.Above, 1<<63-1))}, nil
}

// nullIfEmpty returns b, or nil if b is empty. Some drivers send a nil []byte as an empty value instead of NULL.
func nullIfEmpty(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// A Row is an occurrence in the outbox.
type Row struct {
	rowPosition
	store.Outgoing
	size  int64
	age   time.Duration
	fault error // why it is rejected; nil for none
}

// ID returns the row's id in the table.
func (r *Row) ID() int64 { return r.id }

// decode sets the row's entry, or its fault if the row is invalid.
func (r *Row) decode(id []byte, timestamp *string, data, meta, targets []byte, above int64) {
	if timestamp == nil {
		r.fault = fmt.Errorf("it has %d bytes, at most %d are allowed", r.size, maxWaiting)
		return
	}
	r.Entry = store.Entry{EventID: string(id), Data: data}
	if len(meta) > 0 { // some drivers write an empty value for NULL
		r.Entry.Meta = meta
	}
	at, err := events.ParseTime(*timestamp)
	if err == nil {
		_, err = at.MarshalText()
	}
	switch {
	case err != nil:
		r.fault = fmt.Errorf("its timestamp is invalid: %w", err)
		return
	case above < 0:
		r.fault = fmt.Errorf("its above is %d, at least 0", above)
		return
	}
	r.Entry.Timestamp, r.Above = at, store.Position(above)
	if len(targets) == 0 {
		return
	}
	if err := json.Unmarshal(targets, &r.Entry.Targets); err != nil || len(r.Entry.Targets) == 0 {
		r.fault = errors.New("its targets are not a JSON array of subscription ids")
	}
}
