package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// minServer is the minimum server_version_num, for PostgreSQL 13.
const minServer = 130000

// checkServer checks the server before the store creates its schema.
func (s *Store) checkServer(ctx context.Context) error {
	var version int
	var encoding, readOnly, commit, fsync, pages string
	var recovering bool
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
		current_setting('default_transaction_read_only'), pg_is_in_recovery(),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`).
		Scan(&version, &encoding, &readOnly, &recovering, &commit, &fsync, &pages)
	switch {
	case err != nil:
		return err
	case version < minServer:
		return fmt.Errorf("%w: it has version %d.%d, but 13 is required", ErrServer, version/10000, version%10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database has encoding %s, but UTF8 is required", ErrServer, encoding)
	case recovering:
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case readOnly == "on":
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	s.durable = !s.options.Relaxed && (commit == "off" || commit == "local")
	if fsync == "off" || pages == "off" {
		s.options.Logger.Warn("mcp events: the database may lose acknowledged events when it crashes", "fsync", fsync, "full_page_writes", pages)
	}
	s.system, s.timeline, err = s.serverIdentity(ctx)
	return err
}

// isUnavailable reports whether the role lacks the privilege to call a function, or the server does not support it. The
// SQLSTATE is 42501 (insufficient_privilege), 42883 (undefined_function) or 0A000 (feature_not_supported).
func isUnavailable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "42883" || pg.Code == "0A000")
}

// serverIdentity returns the identifier of the database system and its timeline. A value is empty if the role lacks the
// privilege to read it.
func (s *Store) serverIdentity(ctx context.Context) (system, timeline string, err error) {
	for _, q := range []struct {
		sql  string
		dest *string
	}{
		{"SELECT system_identifier::text FROM pg_control_system()", &system},
		{"SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)", &timeline},
	} {
		if err := s.pool.QueryRow(ctx, q.sql).Scan(q.dest); isUnavailable(err) {
			s.options.Logger.Warn("mcp events: this process will not notice a failover to a standby that is not synchronous", "error", err)
		} else if err != nil {
			return "", "", fmt.Errorf("identifying the server: %w", err)
		}
	}
	return system, timeline, nil
}

// checkCreate reports whether the schema exists. If the role cannot create the schema or its tables, it returns
// ErrRights with the missing privileges.
func (s *Store) checkCreate(ctx context.Context, tx pgx.Tx) (exists bool, err error) {
	var create, use bool
	var role, database string
	err = tx.QueryRow(ctx, `SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE'),
		EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)`, s.name).Scan(&role, &database, &create, &exists)
	if err != nil {
		return false, err
	}
	if !exists {
		if create {
			return false, nil
		}
		return false, fmt.Errorf("%w: %q needs CREATE on database %q to create schema %q; or create it for %q",
			ErrRights, role, database, s.name, role)
	}
	err = tx.QueryRow(ctx, "SELECT has_schema_privilege($1, 'CREATE'), has_schema_privilege($1, 'USAGE')", s.name).Scan(&create, &use)
	if err != nil {
		return false, err
	}
	if !create || !use {
		return false, fmt.Errorf("%w: %q needs USAGE and CREATE on schema %q to make its tables", ErrRights, role, s.name)
	}
	return true, nil
}

// checkTables checks the role's privileges on tables, sequences and functions. It returns ErrRights with the missing
// privileges.
func (s *Store) checkTables(ctx context.Context) error {
	var lacking []string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM (
		SELECT 'SELECT, INSERT, UPDATE, DELETE on table ' || c.relname AS name
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND CASE WHEN c.relkind = 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT')
				AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) END
		UNION ALL SELECT 'USAGE on sequence ' || c.relname
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
		UNION ALL SELECT 'EXECUTE on function ' || p.proname
			FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE')
		UNION ALL SELECT 'USAGE on the schema' WHERE NOT has_schema_privilege($1, 'USAGE')) AS l`, s.name).Scan(&lacking)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return fmt.Errorf("%w: in schema %q: %s", ErrRights, s.name, strings.Join(lacking, "; "))
}

// joinGeneration joins the store's generation. It increments the generation if the server has changed (REP-19), because
// a promoted standby may lack the last commits, and a copy of the database diverges. Values that this role cannot read
// are left unchanged. If only some processes set SynchronousStandby, the other processes increment the generation even
// if the new timeline has already been stored.
func (s *Store) joinGeneration(ctx context.Context) error {
	system, timeline, err := s.serverIdentity(ctx)
	if err != nil {
		return err
	}
	known, _ := s.currentIncarnation()
	s.mu.Lock()
	before := s.timeline
	s.mu.Unlock()
	var now incarnation
	raised := false
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var oldSystem, oldTimeline string
		err := tx.QueryRow(ctx, s.qualify(`SELECT generation, salt, system, timeline FROM @.store FOR UPDATE`)).Scan(&now.generation, &now.salt, &oldSystem, &oldTimeline)
		if err != nil {
			return err
		}
		older := now.generation < known.generation // the database was restored from a backup
		moved := areDifferent(system, oldSystem)
		raised = older || moved || !s.options.SynchronousStandby && (areDifferent(timeline, oldTimeline) || known == now && areDifferent(timeline, before))
		if !raised && (system == "" || system == oldSystem) && (timeline == "" || timeline == oldTimeline) {
			return nil
		}
		if raised {
			if _, err := tx.Exec(ctx, s.qualify(`SELECT @.begin_epochs($1)`), known.generation); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, s.qualify(`UPDATE @.store SET system = coalesce(nullif($1, ''), system),
			timeline = CASE WHEN $3 THEN $2 ELSE coalesce(nullif($2, ''), timeline) END RETURNING generation, salt`),
			system, timeline, moved).Scan(&now.generation, &now.salt) // the timelines of two systems are unrelated
	})
	if err != nil {
		return err
	}
	if raised {
		s.options.Logger.Warn("mcp events: the database was replaced, logs begin new epochs", "generation", now.generation, "timeline", timeline)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != now {
		for name, l := range s.logs {
			l.end()
			delete(s.logs, name)
		}
	}
	s.now, s.system, s.timeline = now, system, timeline
	return nil
}

// areDifferent reports whether a and b are both known and different.
func areDifferent(a, b string) bool { return a != "" && b != "" && a != b }
