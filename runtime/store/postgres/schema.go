package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
)

// schemaVersion is the version of the schema that this build creates. A release that changes the schema increments it
// and migrates older versions in prepare. Different builds can run side by side and be rolled back (REP-16), so a
// release leaves min_version unchanged if builds of that version can still use the schema.
const schemaVersion = 1

var (
	//go:embed tables.sql
	tables string
	//go:embed functions.sql
	functions string
)

// SchemaVersion returns the version of the schema that [Open] creates.
func SchemaVersion() int { return schemaVersion }

// SQLSTATE codes. The first two are raised by the schema's functions. P0002 (no_data_found) is for a log that does not
// exist, and 55P03 (lock_not_available) is for a lock_timeout.
const (
	stateGeneration = "MC001"
	stateFenced     = "MC002"
	stateGone       = "P0002"
	stateLocked     = "55P03"
)

// qualify replaces each "@." in a statement with the quoted schema name and a dot. Any other "@" begins an argument
// name.
func (s *Store) qualify(sql string) string { return strings.ReplaceAll(sql, "@.", s.schema+".") }

// prepare creates the schema in one transaction if it does not exist. It holds a lock that makes other processes wait.
// It returns an error if this build cannot use an existing schema.
func (s *Store) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pglock.StoreSchema(s.schema)); err != nil {
			return err
		}
		if made, err := s.checkSchema(ctx, tx); made || err != nil {
			return err
		}
		exists, err := s.checkCreate(ctx, tx)
		if err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+s.schema); err != nil {
				return err
			}
		}
		for _, sql := range []string{tables, outbox.Tables, functions} {
			if _, err := tx.Conn().PgConn().Exec(ctx, s.qualify(sql)).ReadAll(); err != nil { // several statements
				return fmt.Errorf("making the schema: %w", err)
			}
		}
		_, err = tx.Exec(ctx, s.qualify(`INSERT INTO @.store (one, version, min_version, generation, system, timeline, last_fence)
			VALUES (1, $1, $1, 1, $2, $3, 0)`), schemaVersion, s.system, s.timeline)
		return err
	})
}

// checkSchema reports whether the schema has its tables, and returns an error if this build cannot use them.
func (s *Store) checkSchema(ctx context.Context, tx pgx.Tx) (made bool, err error) {
	var relations int
	var columns []string // of the table store
	var readable bool
	err = tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')),
			(SELECT coalesce(array_agg(a.attname::text), '{}') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
				WHERE c.relnamespace = n.oid AND c.relname = 'store' AND a.attnum > 0 AND NOT a.attisdropped),
			has_schema_privilege(n.oid, 'USAGE') AND coalesce((SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_catalog.pg_class c
				WHERE c.relnamespace = n.oid AND c.relname = 'store'), false)
		FROM pg_catalog.pg_namespace n WHERE n.nspname = $1`, s.name).Scan(&relations, &columns, &readable)
	ours := slices.Contains(columns, "min_version")
	unreleased := slices.Contains(columns, "compatible") && slices.Contains(columns, "generation") // of builds before the first release
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case relations == 0:
		return false, nil
	case len(columns) == 0:
		return false, fmt.Errorf("%w: it holds tables of another program", ErrForeign)
	case !ours && !unreleased:
		return false, fmt.Errorf("%w: its table \"store\" belongs to another program", ErrForeign)
	case !readable:
		return false, fmt.Errorf("%w: USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables", ErrRights)
	}
	var version, least int
	if unreleased {
		if err := tx.QueryRow(ctx, s.qualify(`SELECT version FROM @.store`)).Scan(&version); err != nil {
			return false, err
		}
		return false, fmt.Errorf("%w: the schema was made by an unreleased build of mcpe-gen (schema %d); use a new one", ErrVersion, version)
	}
	if err := tx.QueryRow(ctx, s.qualify(`SELECT version, min_version FROM @.store`)).Scan(&version, &least); err != nil {
		return false, err
	}
	if least > schemaVersion {
		return false, fmt.Errorf("%w: a newer release changed the schema to version %d, which needs a build that knows version %d; this one knows %d; upgrade mcpe-gen",
			ErrVersion, version, least, schemaVersion)
	}
	return true, nil
}
