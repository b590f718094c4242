CREATE TABLE actions (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	key TEXT NOT NULL UNIQUE,
	request BLOB NOT NULL,
	at INTEGER NOT NULL, -- Unix nanoseconds
	outcome BLOB -- NULL while it is under way
) STRICT;
CREATE INDEX actions_at ON actions (at);
