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
