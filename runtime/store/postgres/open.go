package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// minServer is PostgreSQL 13, as server_version_num writes it.
const minServer = 130000

// examine looks at the server before anything is made on it.
func (s *Store) examine(ctx context.Context) error {
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
		return fmt.Errorf("%w: it has version %d.%d, needed is 13", ErrServer, version/10000, version%10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database has encoding %s, needed is UTF8", ErrServer, encoding)
	case recovering:
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case readOnly == "on":
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	s.durable = !s.options.Relaxed && (commit == "off" || commit == "local")
	if fsync == "off" || pages == "off" {
		s.options.Logger.Warn("mcp events: the database may lose acknowledged events when it crashes", "fsync", fsync, "full_page_writes", pages)
	}
	s.system, s.timeline, err = s.identity(ctx)
	return err
}

// identity names the database system and its timeline; what the server does not tell is empty.
func (s *Store) identity(ctx context.Context) (system, timeline string, err error) {
	for _, q := range []struct {
		sql  string
		dest *string
	}{
		{"SELECT system_identifier::text FROM pg_control_system()", &system},
		{"SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)", &timeline},
	} {
		var pg *pgconn.PgError
		if err := s.pool.QueryRow(ctx, q.sql).Scan(q.dest); errors.As(err, &pg) && !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "08") {
			s.options.Logger.Warn("mcp events: a failover to a standby that is not synchronous will not be noticed", "error", err)
		} else if err != nil {
			return "", "", err
		}
	}
	return system, timeline, nil
}

// mayMigrate names the rights that a migration lacks, and tells whether the schema is there.
func (s *Store) mayMigrate(ctx context.Context, tx pgx.Tx, version int) (exists bool, err error) {
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
		return false, fmt.Errorf("%w: %q needs CREATE on database %q to make schema %q, or somebody who makes it for %q",
			ErrRights, role, database, s.name, role)
	}
	err = tx.QueryRow(ctx, "SELECT has_schema_privilege($1, 'CREATE'), has_schema_privilege($1, 'USAGE')", s.name).Scan(&create, &use)
	if err != nil {
		return false, err
	}
	if !create || !use {
		return false, fmt.Errorf("%w: %q needs USAGE and CREATE on schema %q to bring it from version %d to %d", ErrRights, role, s.name, version, len(migrations))
	}
	return true, nil
}

// checkTables names the tables whose rights the role lacks.
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

// checkKey compares the key with the one that the store was made with. A store made without a key
// takes one from now on; what it holds already stays as it is until it is written again.
func (s *Store) checkKey(ctx context.Context) error {
	if s.box.Keyed() {
		if _, err := s.pool.Exec(ctx, s.in(`UPDATE @.store SET sealed = $1 WHERE sealed IS NULL`), s.box.SealCheck()); err != nil {
			return err
		}
	}
	var check []byte
	if err := s.pool.QueryRow(ctx, s.in(`SELECT sealed FROM @.store`)).Scan(&check); err != nil || check == nil {
		return err
	}
	return s.box.Check(check)
}

// enter joins the store's generation, and raises it when the server is not the one that it was
// (REP-19): a standby that was promoted may lack the last commits, and a copy has a life of its own.
func (s *Store) enter(ctx context.Context) error {
	system, timeline, err := s.identity(ctx)
	if err != nil {
		return err
	}
	var generation int64
	raised := false
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var oldSystem, oldTimeline string
		err := tx.QueryRow(ctx, s.in(`SELECT generation, system, timeline FROM @.store FOR UPDATE`)).Scan(&generation, &oldSystem, &oldTimeline)
		if err != nil || oldSystem == system && oldTimeline == timeline {
			return err
		}
		same := system == oldSystem && s.options.SynchronousStandby
		if raised = !same && (differ(system, oldSystem) || differ(timeline, oldTimeline)); raised {
			generation++
			// Leases and fences of before mean nothing now.
			if _, err := tx.Exec(ctx, s.in(`DELETE FROM @.leases`)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, s.in(`UPDATE @.store SET generation = $1, system = $2, timeline = $3, last_fence = CASE WHEN $4 THEN 0 ELSE last_fence END`),
			generation, system, timeline, raised)
		return err
	})
	if err != nil {
		return err
	}
	if raised {
		s.options.Logger.Warn("mcp events: the database was replaced, logs begin new epochs", "generation", generation, "timeline", timeline)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		for name, l := range s.logs {
			l.end()
			delete(s.logs, name)
		}
	}
	s.generation, s.system, s.timeline = generation, system, timeline
	return nil
}

// differ tells that both are known and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }
