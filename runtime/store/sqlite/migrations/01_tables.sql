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
