package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
)

// A migration brings a schema from one version to the next. Builds run side by side and are rolled
// back (REP-16): what a build needs must stay as long as breaks does not say otherwise.
type migration struct {
	sql string
	// breaks tells that builds which know only the versions before must not use the schema.
	breaks bool
}

// migrations are only ever added to. The schema's name stands for "@" before a ".".
//
// What users and authors name is kept as bytes: it is compared by them, and PostgreSQL's text takes
// neither every byte nor, in every database, every character. Times are Unix nanoseconds where they
// come from a caller, 0 for none, and timestamps where they are the database's.
var migrations = []migration{
	{sql: tables, breaks: true},
	{sql: attemptsTable},
	{sql: pausedColumn},
	{sql: actionsTable},
	{sql: schemaColumn},
	{sql: appendPlan},
	{sql: proofs, breaks: true},
	{sql: rejectedTable},
	{sql: holdOfGeneration},
	{sql: outboxTransactions},
	{sql: appendUnseen},
	{sql: appendAll},
	{sql: lookFunctions},
	{sql: appendGone},
}

var (
	//go:embed migrations/00_store.sql
	storeTable string
	//go:embed migrations/01_tables.sql
	tables string
	//go:embed migrations/02_attempts.sql
	attemptsTable string
	//go:embed migrations/03_paused.sql
	pausedColumn string
	//go:embed migrations/04_actions.sql
	actionsTable string
	//go:embed migrations/05_schema.sql
	schemaColumn string
	//go:embed migrations/06_plan.sql
	appendPlan string
	//go:embed migrations/07_proofs.sql
	proofs string
	//go:embed migrations/08_rejected.sql
	rejectedTable string
	//go:embed migrations/09_holds.sql
	holdOfGeneration string
	//go:embed migrations/10_outbox.sql
	outboxTransactions string
	//go:embed migrations/11_append.sql
	appendUnseen string
	//go:embed migrations/12_appends.sql
	appendAll string
	//go:embed migrations/13_look.sql
	lookFunctions string
	//go:embed migrations/14_gone.sql
	appendGone string
)

// SchemaVersion is the version that [Open] brings a schema to.
func SchemaVersion() int { return len(migrations) }

// The SQLSTATEs that our functions raise, no_data_found for a log that is gone, and lock_not_available, which follows from
// lock_timeout.
const (
	stateGeneration = "MC001"
	stateFenced     = "MC002"
	stateGone       = "P0002"
	stateLocked     = "55P03"
)

// in puts the schema's name, quoted, in place of each "@" before a "." of a statement; others name arguments.
func (s *Store) in(sql string) string { return strings.ReplaceAll(sql, "@.", s.schema+".") }

// migrate brings the schema to this build's version in one transaction, under a lock that other
// processes which migrate wait for.
func (s *Store) migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pglock.StoreSchema(s.schema)); err != nil {
			return err
		}
		version, err := s.version(ctx, tx)
		if err != nil || version >= len(migrations) {
			return err
		}
		exists, err := s.mayMigrate(ctx, tx, version)
		if err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+s.schema); err != nil {
				return err
			}
		}
		if version == 0 {
			if _, err := tx.Exec(ctx, s.in(storeTable)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, s.in(`INSERT INTO @.store VALUES (1, 0, 0, 1, $1, $2, 0)`), s.system, s.timeline); err != nil {
				return err
			}
		}
		compatible := 0
		for i := version; i < len(migrations); i++ {
			if migrations[i].breaks {
				compatible = i + 1
			}
			if _, err := tx.Conn().PgConn().Exec(ctx, s.in(migrations[i].sql)).ReadAll(); err != nil { // several statements
				return fmt.Errorf("migrating to version %d: %w", i+1, err)
			}
		}
		_, err = tx.Exec(ctx, s.in(`UPDATE @.store SET version = $1, compatible = greatest(compatible, $2)`), len(migrations), compatible)
		return err
	})
}

// version reads the version of the schema, 0 when there is none, and refuses one that this build
// cannot use.
func (s *Store) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var store, others bool
	err = tx.QueryRow(ctx, `SELECT coalesce(bool_or(c.relname = 'store'), false), coalesce(bool_or(c.relname <> 'store'), false)
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`, s.name).Scan(&store, &others)
	switch {
	case err != nil:
		return 0, err
	case !store && others:
		return 0, fmt.Errorf("%w: it holds tables of another program", ErrForeign)
	case !store:
		return 0, nil
	}
	var ours bool
	err = tx.QueryRow(ctx, `SELECT count(*) = 2 FROM information_schema.columns
		WHERE table_schema = $1 AND table_name = 'store' AND column_name IN ('compatible', 'generation')`, s.name).Scan(&ours)
	if err != nil {
		return 0, err
	}
	if !ours {
		// The columns of a table without any right on it are not shown.
		var readable bool
		if err := tx.QueryRow(ctx, "SELECT has_schema_privilege($1, 'USAGE')", s.name).Scan(&readable); err != nil {
			return 0, err
		}
		if readable {
			if err := tx.QueryRow(ctx, "SELECT has_table_privilege($1, 'SELECT')", s.schema+".store").Scan(&readable); err != nil {
				return 0, err
			}
		}
		if !readable {
			return 0, fmt.Errorf("%w: USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables", ErrRights)
		}
		return 0, fmt.Errorf("%w: its table \"store\" belongs to another program", ErrForeign)
	}
	var compatible int
	if err := tx.QueryRow(ctx, s.in(`SELECT version, compatible FROM @.store`)).Scan(&version, &compatible); err != nil {
		return 0, err
	}
	if compatible > len(migrations) {
		return 0, fmt.Errorf("%w: it has version %d, which needs a build that knows version %d; this one knows %d",
			ErrVersion, version, compatible, len(migrations))
	}
	return version, nil
}
