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
