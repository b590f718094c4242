CREATE TABLE logs (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	epoch INTEGER NOT NULL,
	head INTEGER NOT NULL DEFAULT 0,
	oldest INTEGER NOT NULL DEFAULT 1, -- that retention covered at the last append; earlier entries stay evicted
	evicted INTEGER NOT NULL DEFAULT 0 -- proof of the last entry that was deleted, 0 for none
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
	cursor TEXT NOT NULL,
	audience BLOB NOT NULL, -- function audience, of targets
	sum INTEGER NOT NULL -- row.checksum
) STRICT;
CREATE UNIQUE INDEX entries_position ON entries (log, position);
CREATE INDEX entries_appended ON entries (log, appended);
CREATE INDEX entries_id ON entries (log, event_id, audience, position);
CREATE TABLE subscriptions (
	id TEXT PRIMARY KEY,
	principal TEXT NOT NULL,
	url TEXT NOT NULL,
	event TEXT NOT NULL,
	arguments BLOB NOT NULL,
	secrets BLOB NOT NULL, -- package sealed
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
	open INTEGER NOT NULL, -- 1 if something above base is not settled
	upstream TEXT NOT NULL,
	suspended INTEGER NOT NULL,
	suspended_after INTEGER NOT NULL,
	failed_since INTEGER NOT NULL,
	last_delivery INTEGER NOT NULL,
	last_error TEXT NOT NULL,
	slow INTEGER NOT NULL, -- 1 if the last response took a second or longer
	not_before INTEGER NOT NULL,
	paused_at INTEGER NOT NULL,
	admitted_generation INTEGER NOT NULL,
	admitted INTEGER NOT NULL, -- position in the generation
	requests TEXT NOT NULL, -- JSON object, empty for none
	report TEXT NOT NULL -- JSON object, empty for none
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_callback ON subscriptions (principal, url);
CREATE TABLE marks (
	log TEXT PRIMARY KEY,
	position INTEGER NOT NULL
) STRICT;
CREATE TABLE verifications (
	principal TEXT NOT NULL,
	url TEXT NOT NULL,
	method TEXT NOT NULL,
	at INTEGER NOT NULL,
	until INTEGER NOT NULL,
	PRIMARY KEY (principal, url)
) STRICT, WITHOUT ROWID;
CREATE INDEX verifications_until ON verifications (until);
CREATE TABLE attempts (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	subscription TEXT NOT NULL,
	last INTEGER NOT NULL, -- when the latest was made, Unix nanoseconds
	count INTEGER NOT NULL,
	made BLOB NOT NULL -- package attemptlog
) STRICT;
CREATE INDEX attempts_subscription ON attempts (subscription, sequence, count);
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
CREATE TABLE callbacks (
	key TEXT PRIMARY KEY,
	secrets BLOB NOT NULL,
	record TEXT NOT NULL -- JSON, without the secrets
) STRICT;
CREATE TABLE dead_letters (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	key TEXT NOT NULL,
	event_id TEXT NOT NULL,
	due INTEGER NOT NULL,
	record TEXT NOT NULL, -- JSON, without what the other columns have
	data BLOB NOT NULL,
	meta BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX dead_letters_event ON dead_letters (key, event_id) WHERE event_id <> '';
CREATE INDEX dead_letters_due ON dead_letters (key, sequence) WHERE due = 1;
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
CREATE TABLE key_check (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	sealed BLOB NOT NULL
) STRICT;
CREATE TABLE quotas (
	kind TEXT NOT NULL, -- the table whose rows are counted
	principal TEXT NOT NULL,
	used INTEGER NOT NULL,
	PRIMARY KEY (kind, principal)
) STRICT, WITHOUT ROWID;
CREATE TABLE totals (
	kind TEXT PRIMARY KEY,
	used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO totals VALUES ('subscriptions', 0), ('verifications', 0);
-- A row that replaces another one is not counted again. The statements of a trigger resolve conflicts as INSERT OR REPLACE
-- does that fires it: none of them may have one.
CREATE TRIGGER subscriptions_added BEFORE INSERT ON subscriptions WHEN NOT EXISTS (SELECT 1 FROM subscriptions WHERE id = NEW.id) BEGIN
	INSERT INTO quotas SELECT 'subscriptions', NEW.principal, 0
		WHERE NOT EXISTS (SELECT 1 FROM quotas WHERE kind = 'subscriptions' AND principal = NEW.principal);
	UPDATE quotas SET used = used + 1 WHERE kind = 'subscriptions' AND principal = NEW.principal;
	UPDATE totals SET used = used + 1 WHERE kind = 'subscriptions';
END;
CREATE TRIGGER subscriptions_removed AFTER DELETE ON subscriptions BEGIN
	UPDATE quotas SET used = used - 1 WHERE kind = 'subscriptions' AND principal = OLD.principal;
	DELETE FROM quotas WHERE kind = 'subscriptions' AND principal = OLD.principal AND used <= 0;
	UPDATE totals SET used = used - 1 WHERE kind = 'subscriptions';
END;
CREATE TRIGGER verifications_added BEFORE INSERT ON verifications
	WHEN NOT EXISTS (SELECT 1 FROM verifications WHERE principal = NEW.principal AND url = NEW.url) BEGIN
	INSERT INTO quotas SELECT 'verifications', NEW.principal, 0
		WHERE NOT EXISTS (SELECT 1 FROM quotas WHERE kind = 'verifications' AND principal = NEW.principal);
	UPDATE quotas SET used = used + 1 WHERE kind = 'verifications' AND principal = NEW.principal;
	UPDATE totals SET used = used + 1 WHERE kind = 'verifications';
END;
CREATE TRIGGER verifications_removed AFTER DELETE ON verifications BEGIN
	UPDATE quotas SET used = used - 1 WHERE kind = 'verifications' AND principal = OLD.principal;
	DELETE FROM quotas WHERE kind = 'verifications' AND principal = OLD.principal AND used <= 0;
	UPDATE totals SET used = used - 1 WHERE kind = 'verifications';
END;
