package sqlite

import (
	"context"
	"database/sql"
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
var migrations = []migration{{sql: `
CREATE TABLE logs (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	epoch INTEGER NOT NULL,
	head INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE entries (
	log INTEGER NOT NULL REFERENCES logs (id),
	position INTEGER NOT NULL,
	appended INTEGER NOT NULL, -- Unix nanoseconds
	event_id TEXT NOT NULL,
	timestamp TEXT NOT NULL,
	data BLOB NOT NULL,
	meta BLOB,
	targets TEXT, -- JSON array
	cursor TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entries_position ON entries (log, position);
CREATE INDEX entries_appended ON entries (log, appended);
CREATE TABLE subscriptions (
	id TEXT PRIMARY KEY,
	principal TEXT NOT NULL,
	url TEXT NOT NULL,
	event TEXT NOT NULL,
	arguments BLOB NOT NULL,
	secrets BLOB NOT NULL, -- one byte of form, then JSON, encrypted in form 1
	codes INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	created INTEGER NOT NULL, -- times are Unix nanoseconds, 0 for none
	refreshed INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	truncated INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	base INTEGER NOT NULL,
	settled TEXT NOT NULL, -- JSON array of [from, to]
	upstream TEXT NOT NULL,
	suspended INTEGER NOT NULL,
	suspended_at INTEGER NOT NULL,
	failed_since INTEGER NOT NULL,
	last_delivery INTEGER NOT NULL,
	last_error TEXT NOT NULL
) STRICT;
CREATE INDEX subscriptions_principal ON subscriptions (principal);
CREATE TABLE dispatched (
	log TEXT PRIMARY KEY,
	position INTEGER NOT NULL
) STRICT;
CREATE TABLE concerns (
	subscription TEXT NOT NULL,
	log TEXT NOT NULL,
	generation INTEGER NOT NULL,
	first INTEGER NOT NULL,
	PRIMARY KEY (subscription, log)
) STRICT, WITHOUT ROWID;
CREATE INDEX concerns_log ON concerns (log, subscription);
CREATE TABLE verifications (
	principal TEXT NOT NULL,
	url TEXT NOT NULL,
	method TEXT NOT NULL,
	at INTEGER NOT NULL,
	until INTEGER NOT NULL,
	PRIMARY KEY (principal, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE cursors (
	key TEXT PRIMARY KEY,
	cursor TEXT NOT NULL,
	event_ids TEXT NOT NULL -- JSON array
) STRICT;
CREATE TABLE received (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	key TEXT NOT NULL,
	event_id TEXT NOT NULL,
	body BLOB NOT NULL,
	UNIQUE (key, event_id)
) STRICT;
CREATE TABLE key_check (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	sealed BLOB NOT NULL
) STRICT;
`}, {sql: `
CREATE TABLE callbacks (
	key TEXT PRIMARY KEY,
	secrets BLOB NOT NULL,
	record TEXT NOT NULL -- JSON, without the secrets
) STRICT;
`}, {sql: `
CREATE TABLE schedules (
	id TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	next_run INTEGER NOT NULL, -- Unix nanoseconds, 0 for never
	record BLOB NOT NULL
) STRICT;
CREATE TABLE queued (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	schedule TEXT NOT NULL,
	body BLOB NOT NULL
) STRICT;
CREATE INDEX queued_schedule ON queued (schedule, sequence);
CREATE TABLE intakes (
	source TEXT PRIMARY KEY,
	cursor TEXT NOT NULL
) STRICT;
`}, {sql: `
ALTER TABLE entries ADD COLUMN audience BLOB NOT NULL DEFAULT x''; -- function audience, of targets
`, then: addAudiences}, {sql: `
CREATE INDEX entries_id ON entries (log, event_id, audience, position);
`}, {sql: `
ALTER TABLE subscriptions ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
DROP INDEX subscriptions_principal;
CREATE INDEX subscriptions_callback ON subscriptions (principal, url);
CREATE INDEX verifications_until ON verifications (until);
`}, {sql: `
ALTER TABLE entries ADD COLUMN sum INTEGER; -- row.checksum; NULL in entries up to unsummed
ALTER TABLE logs ADD COLUMN unsummed INTEGER NOT NULL DEFAULT 0;
UPDATE logs SET unsummed = head;
`}, {sql: `
CREATE TABLE attempts (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	subscription TEXT NOT NULL,
	last INTEGER NOT NULL, -- when the latest was made, Unix nanoseconds
	count INTEGER NOT NULL,
	made BLOB NOT NULL -- package attemptlog
) STRICT;
CREATE INDEX attempts_subscription ON attempts (subscription, sequence, count);
`}, {sql: `
ALTER TABLE subscriptions ADD COLUMN paused_at INTEGER NOT NULL DEFAULT 0;
`}, {sql: `
CREATE TABLE actions (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	key TEXT NOT NULL UNIQUE,
	request BLOB NOT NULL,
	at INTEGER NOT NULL, -- Unix nanoseconds
	outcome BLOB -- NULL while it is under way
) STRICT;
CREATE INDEX actions_at ON actions (at);
`}}

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
