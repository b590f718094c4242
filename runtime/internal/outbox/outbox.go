// Package outbox reads and changes the two tables of an outbox in PostgreSQL. The table outbox has the occurrences
// that transactions of the author emitted, and rejected has the occurrences that were set aside. A [Mover] moves rows
// to their logs and says what is atomic with that. It is a store that has its logs in the same database (package
// postgres), or a relay to any other store (package pgoutbox). Each has the tables in a separate schema. The package
// makes no promise of compatibility.
//
// A role that may only insert into the table outbox is not trusted otherwise: rows are checked before they are moved,
// and their ids and transaction numbers are not believed. See REP-20.
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
	// columns are the columns of both tables.
	columns = "log, event_id, timestamp, data, meta, targets, once, above"
	// MaxName bounds a log's name, in bytes.
	MaxName = 1024
	// maxWaiting bounds the bytes of a row; a larger row is set aside unread. A look reads as many bytes in all.
	maxWaiting = 16 << 20
)

// Tables creates the tables; "@" before a "." stands for the schema.
//
//go:embed tables.sql
var Tables string

// A Table is the outbox of one schema, with the state that its owner keeps between steps. Create one per schema and
// process.
type Table struct {
	// Schema is the quoted name of the schema.
	Schema string
	Logger *slog.Logger

	sweeping sweeping
}

// in replaces each "@" before a "." by the schema.
func (t *Table) in(sql string) string { return strings.ReplaceAll(sql, "@.", t.Schema+".") }

// A DB runs statements in the table's database.
type DB interface {
	// Read runs a query and passes its rows to f. f runs again if the query is retried.
	Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error
	// Write runs a statement and returns the number of affected rows.
	Write(ctx context.Context, sql string, args ...any) (affected int64, err error)
}

// EmitPgx inserts an occurrence in a transaction of the author: one row, and no lock for which other transactions
// wait.
func (t *Table) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	args, err := args(p)
	if err == nil && args != nil {
		// Sent unnamed, whatever the default of the author's connection is.
		_, err = tx.Exec(ctx, t.in(emitSQL), append([]any{pgx.QueryExecModeExec}, args...)...)
	}
	return err
}

// EmitSQL is like [Table.EmitPgx] for a transaction of database/sql, with any PostgreSQL driver that supports $1
// placeholders.
func (t *Table) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	args, err := args(p)
	if err == nil && args != nil {
		_, err = tx.ExecContext(ctx, t.in(emitSQL), args...)
	}
	return err
}

const emitSQL = `INSERT INTO @.outbox (` + columns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// args returns nil for an occurrence without recipients.
func args(p store.Prepared) ([]any, error) {
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
	return []any{o.Log, []byte(e.EventID), e.Timestamp.String(), data, null(e.Meta), null(targets), o.Once, int64(min(o.Above, 1<<63-1))}, nil
}

// null returns NULL for every driver if b is empty: some drivers send a nil []byte as an empty one.
func null(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// A Row is a waiting occurrence.
type Row struct {
	place
	store.Outgoing
	size  int64
	age   time.Duration
	fault error // why it is set aside; nil for none
}

// ID returns the row's id in the table.
func (r *Row) ID() int64 { return r.id }

// decode sets the entry, or the fault of an invalid row.
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
