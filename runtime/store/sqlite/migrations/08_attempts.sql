CREATE TABLE attempts (
	sequence INTEGER PRIMARY KEY AUTOINCREMENT,
	subscription TEXT NOT NULL,
	last INTEGER NOT NULL, -- when the latest was made, Unix nanoseconds
	count INTEGER NOT NULL,
	made BLOB NOT NULL -- package attemptlog
) STRICT;
CREATE INDEX attempts_subscription ON attempts (subscription, sequence, count);
