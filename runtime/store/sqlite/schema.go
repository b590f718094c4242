package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
)

// A migration is SQL and what SQL cannot do, both in one transaction.
type migration struct {
	sql  string
	then func(context.Context, *sql.Conn) error
}

// migrations bring a file from version i to i+1. They are only ever added to.
var migrations = []migration{
	{sql: tables},
	{sql: callbacksTable},
	{sql: scheduleTables},
	{sql: audienceColumn, then: addAudiences},
	{sql: entriesIndex},
	{sql: callbackIndex},
	{sql: sumColumn},
	{sql: attemptsTable},
	{sql: pausedColumn},
	{sql: actionsTable},
	{sql: evictedColumn},
	{sql: deadLettersTable},
	{sql: quotaTables},
}

var (
	//go:embed migrations/01_tables.sql
	tables string
	//go:embed migrations/02_callbacks.sql
	callbacksTable string
	//go:embed migrations/03_schedules.sql
	scheduleTables string
	//go:embed migrations/04_audience.sql
	audienceColumn string
	//go:embed migrations/05_entries_id.sql
	entriesIndex string
	//go:embed migrations/06_callback_index.sql
	callbackIndex string
	//go:embed migrations/07_sum.sql
	sumColumn string
	//go:embed migrations/08_attempts.sql
	attemptsTable string
	//go:embed migrations/09_paused.sql
	pausedColumn string
	//go:embed migrations/10_actions.sql
	actionsTable string
	//go:embed migrations/11_evicted.sql
	evictedColumn string
	//go:embed migrations/12_dead_letters.sql
	deadLettersTable string
	//go:embed migrations/13_quotas.sql
	quotaTables string
)

// migrate brings the file to the present version, each step in a transaction of its own.
func migrate(ctx context.Context, conn *sql.Conn) error {
	for {
		if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return err
		}
		done, err := migrateStep(ctx, conn)
		if err != nil {
			conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			return err
		}
		if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
			conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			return err
		}
		if done {
			return nil
		}
	}
}

// migrateStep applies the next migration; done tells that there was none.
func migrateStep(ctx context.Context, conn *sql.Conn) (done bool, err error) {
	var version int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return false, err
	}
	switch {
	case version == len(migrations):
		return true, nil
	case version < 0:
		return false, fmt.Errorf("%w: version %d", ErrCorrupt, version)
	case version > len(migrations):
		return false, fmt.Errorf("%w: version %d, this release knows %d", ErrVersion, version, len(migrations))
	}
	if version == 0 {
		// A file of somebody else's must not be taken for an empty store.
		var tables int
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
			return false, err
		}
		if tables > 0 {
			return false, fmt.Errorf("%w: the database belongs to another program", ErrCorrupt)
		}
	}
	m := migrations[version]
	if _, err := conn.ExecContext(ctx, m.sql); err != nil {
		return false, err
	}
	if m.then != nil {
		if err := m.then(ctx, conn); err != nil {
			return false, err
		}
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
	return false, err
}

// addAudiences computes the audience of the entries that are not for everybody.
func addAudiences(ctx context.Context, conn *sql.Conn) error {
	const atOnce = 1000
	for last := int64(-1); ; {
		var ids []int64
		var sums [][]byte
		rows, err := conn.QueryContext(ctx, "SELECT rowid, targets FROM entries WHERE rowid > ? AND targets IS NOT NULL ORDER BY rowid LIMIT ?", last, atOnce)
		if err != nil {
			return err
		}
		for rows.Next() {
			var text string
			var targets []string
			if err := rows.Scan(&last, &text); err != nil {
				rows.Close()
				return err
			}
			if json.Unmarshal([]byte(text), &targets) != nil || targets == nil {
				targets = []string{text} // reading the entry says that it is corrupt
			}
			ids, sums = append(ids, last), append(sums, audience(targets))
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(ids) == 0 {
			return err
		}
		for i, id := range ids {
			if _, err := conn.ExecContext(ctx, "UPDATE entries SET audience = ? WHERE rowid = ?", sums[i], id); err != nil {
				return err
			}
		}
	}
}
