// Package pgoutbox provides an outbox in the author's PostgreSQL database for logs that are stored elsewhere. An
// occurrence is emitted in the author's transaction, and a relay appends it to its log after the commit. Start with
// [Open]. If the logs are in the same database, use package postgres, which does not need a relay.
//
//	box, err := pgoutbox.Open(ctx, os.Getenv("DATABASE_URL"), pgoutbox.Options{})
//	es, err := server.New(srv, server.Options{Store: js, Outbox: box.Relay(js)})
//	occurrence, err := server.Prepare(ctx, created, payload)
//	err = box.EmitPgx(ctx, tx, occurrence)
//
// If the process crashes between the append and the commit of the relay's transaction, the relay appends the same
// occurrences again with the same ids. The log recognizes them as long as it retains them. Delivery from the table is
// therefore at least once, but the log contains each occurrence only once. Logs must retain events for longer than a
// relay can be down, and for more than an hour. See REP-20.
package pgoutbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// DefaultSchema is the schema that an outbox uses if Options.Schema is empty.
const DefaultSchema = "mcpe_outbox"

// Options configure an [Outbox]. The zero value is ready to use.
type Options struct {
	// Schema is the name of the schema with the outbox's tables. The default is [DefaultSchema]. It must differ from
	// the schema of a postgres.Store.
	Schema string
	// Connections is the maximum number of connections to the database, not including those of the author's
	// transactions. The default is 4.
	Connections int
	// Logger logs messages for operators. The default is slog.Default().
	Logger *slog.Logger
}

// An Outbox is an outbox opened by [Open]. It is safe for concurrent use by multiple goroutines. Several processes can
// open the same outbox.
type Outbox struct {
	table outbox.Table
	name  string // of the schema
	pool  *pgxpool.Pool
	still time.Duration // see hangTimeout
}

const (
	maxSchema      = 48
	maxConnections = 4
	connectTime    = 10 * time.Second
	openTime       = 30 * time.Second
	minServer      = 130000 // PostgreSQL 13
)

// Open connects to a database and creates the schema if it does not exist. To create the schema, the role needs CREATE
// on the database, or on an existing schema. Later, it needs SELECT, INSERT, UPDATE and DELETE on the schema's tables.
func Open(ctx context.Context, connString string, o Options) (_ *Outbox, err error) {
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Connections = cmp.Or(o.Connections, maxConnections)
	switch {
	case len(o.Schema) > maxSchema || strings.ContainsAny(o.Schema, "\x00@") || strings.HasPrefix(o.Schema, "pg_"):
		return nil, fmt.Errorf("open outbox: Schema must have at most %d bytes (it has %d), no NUL and no @, and must not begin with pg_", maxSchema, len(o.Schema))
	case o.Connections < 0:
		return nil, errors.New("open outbox: Connections is negative")
	}
	config, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err) // the error does not contain the password
	}
	config.MaxConns = int32(o.Connections)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // the server keeps nothing between transactions
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTime)
	b := &Outbox{name: o.Schema, still: hangTimeout, table: outbox.Table{Schema: pgx.Identifier{o.Schema}.Sanitize(), Logger: o.Logger}}
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return b.prepare(ctx, tx) }); err != nil {
		b.pool.Close()
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	return b, nil
}

// Close closes the connections. Later calls to a relay fail.
func (b *Outbox) Close() { b.pool.Close() }

// schemaVersion is the version of the schema that this build creates. A release that changes the schema increments it
// and migrates lower versions in prepare.
const schemaVersion = 1

// createSQL contains the SQL that creates the tables. "@" before a "." represents the schema.
var createSQL = "CREATE TABLE @.version (schema_version integer NOT NULL);\n" + outbox.Tables

// qualify replaces each "@" before a "." with the schema.
func (b *Outbox) qualify(sql string) string { return strings.ReplaceAll(sql, "@.", b.table.Schema+".") }

// prepare creates the schema if it does not exist. It holds a lock that makes other processes wait. It returns an error
// for a schema that this build cannot use.
func (b *Outbox) prepare(ctx context.Context, tx pgx.Tx) error {
	var server int
	var encoding string
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`).Scan(&server, &encoding)
	switch {
	case err != nil:
		return err
	case server < minServer:
		return fmt.Errorf("the server has version %d.%d, but 13 is required", server/10000, server%10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database has encoding %s, but UTF8 is required", encoding)
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pglock.OutboxSchema(b.name)); err != nil {
		return err
	}
	var exists, ours, others, unreleased bool
	err = tx.QueryRow(ctx, `SELECT count(n.oid) > 0, coalesce(bool_or(c.relname = 'version'), false), coalesce(bool_or(c.relname <> 'version'), false),
			coalesce(bool_or(c.relname = 'version' AND EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'number')), false)
		FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
		WHERE n.nspname = $1`, b.name).Scan(&exists, &ours, &others, &unreleased)
	switch {
	case err != nil:
		return err
	case unreleased:
		return fmt.Errorf("schema %q was made by an unreleased build of mcpe-gen; use a new one", b.name)
	case !ours && others:
		return fmt.Errorf("schema %q holds tables of another program", b.name)
	case ours:
		var version int
		if err := tx.QueryRow(ctx, b.qualify(`SELECT schema_version FROM @.version`)).Scan(&version); err != nil {
			return fmt.Errorf("reading the version of schema %q: %w", b.name, err)
		}
		if version > schemaVersion {
			return fmt.Errorf("schema %q was changed by a newer release: it has version %d, but this build knows only %d; upgrade mcpe-gen", b.name, version, schemaVersion)
		}
		return nil
	}
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+b.table.Schema); err != nil {
			return fmt.Errorf("making schema %q: %w", b.name, err)
		}
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, b.qualify(createSQL)).ReadAll(); err != nil { // several statements
		return fmt.Errorf("making the tables of schema %q: %w", b.name, err)
	}
	_, err = tx.Exec(ctx, b.qualify(`INSERT INTO @.version VALUES ($1)`), schemaVersion)
	return err
}

// EmitPgx inserts a prepared occurrence into the outbox within the author's transaction. The relay appends the
// occurrence to the log after the transaction commits. If the transaction does not commit, the occurrence is never
// appended. EmitPgx inserts one row and does not block other transactions. Occurrences from one transaction keep their
// order. If a transaction begins after another one has committed, its occurrences follow those of the earlier
// transaction. See REP-20.
//
// The transaction must be in the same database. The role needs USAGE on the schema and on the sequence outbox_id_seq,
// and INSERT on the table outbox. When an occurrence is moved, it is rejected if it is invalid or if the log retains
// its id with different data (OCC-5).
func (b *Outbox) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	return wrapEmitError(b.table.EmitPgx(ctx, tx, p))
}

// EmitSQL is like [Outbox.EmitPgx], but for database/sql transactions. It supports any PostgreSQL driver with $1
// placeholders.
func (b *Outbox) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	return wrapEmitError(b.table.EmitSQL(ctx, tx, p))
}

func wrapEmitError(err error) error {
	if err != nil {
		return fmt.Errorf("emit in transaction: %w", err)
	}
	return nil
}

// Waiting returns the number of waiting occurrences, the age of the oldest one, and the number of rejected
// ones. Waiting counts rows, so its cost grows with their number.
func (b *Outbox) Waiting(ctx context.Context) (rows int, oldest time.Duration, rejected int, err error) {
	var age float64
	err = b.pool.QueryRow(ctx, b.qualify(`SELECT count(*), coalesce(extract(epoch FROM clock_timestamp()) - extract(epoch FROM min(at)), 0)::float8,
		(SELECT count(*) FROM @.rejected) FROM @.outbox`)).Scan(&rows, &age, &rejected)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("counting waiting rows in the outbox: %w", err)
	}
	return rows, outbox.Age(age), rejected, nil
}

// Relay returns the relay for server.Options.Outbox. It moves committed occurrences to the logs of the given store. The
// servers of the store choose the process that runs it. See [engine.Outbox].
func (b *Outbox) Relay(into engine.Shared) engine.Outbox { return &relay{db{b.pool}, b, into} }
