// Package outbox reads and changes the two tables of an outbox in PostgreSQL for whoever moves their rows: outbox has
// what transactions of the author emitted, and rejected has what was put aside. A [Mover] says where rows go and what is
// one step with that: it is a store that has its logs in the same database (package postgres), or a relay to any other
// store (package pgoutbox). Each has the tables in its own schema. The package makes no promise of compatibility.
//
// A role that may only insert into the table outbox is trusted with nothing else: rows are checked before they are
// moved, and neither ids nor numbers of transactions in them are believed. See REP-20.
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
	// columns are those of what waits and of what was put aside.
	columns = "log, event_id, timestamp, data, meta, targets, once, above"
	// MaxName bounds a log's name, in bytes.
	MaxName = 1024
	// maxWaiting bounds the bytes of a row; a larger one is put aside unread. One look takes as many together.
	maxWaiting = 16 << 20
)

// Tables makes the tables, in a schema that stands for "@" before a ".".
//
//go:embed tables.sql
var Tables string

// A Table is the outbox of one schema. It has what its owner remembers between steps; one is made for a schema and
// process.
type Table struct {
	// Schema is quoted.
	Schema string
	Logger *slog.Logger

	sweeping sweeping
}

// in puts the schema in place of each "@" before a ".".
func (t *Table) in(sql string) string { return strings.ReplaceAll(sql, "@.", t.Schema+".") }

// A DB runs statements in the table's database.
type DB interface {
	// Read runs a query. f reads its rows, anew whenever the query has to be tried again.
	Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error
	// Write runs a statement and returns how many rows it affected.
	Write(ctx context.Context, sql string, args ...any) (affected int64, err error)
}

// EmitPgx puts an occurrence into a transaction of the author: one row, and no lock that another one waits for.
func (t *Table) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	args, err := args(p)
	if err == nil && args != nil {
		// Sent unnamed, whatever the author's connection does by default.
		_, err = tx.Exec(ctx, t.in(emitSQL), append([]any{pgx.QueryExecModeExec}, args...)...)
	}
	return err
}

// EmitSQL is [Table.EmitPgx] for a transaction of database/sql, by any driver for PostgreSQL that takes $1.
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

// args returns nil for an occurrence that is for nobody.
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

// null is NULL for every driver: some send a nil []byte as an empty one.
func null(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// A Row is an occurrence that waits.
type Row struct {
	place
	store.Outgoing
	size  int64
	age   time.Duration
	fault error // why it is put aside
}

// ID is the row's in the table.
func (r *Row) ID() int64 { return r.id }

// decode sets the entry, or the fault of a row that is none.
func (r *Row) decode(id []byte, timestamp *string, data, meta, targets []byte, above int64) {
	if timestamp == nil {
		r.fault = fmt.Errorf("it has %d bytes, at most %d are allowed", r.size, maxWaiting)
		return
	}
	r.Entry = store.Entry{EventID: string(id), Data: data}
	if len(meta) > 0 { // some drivers write an empty one for none
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
