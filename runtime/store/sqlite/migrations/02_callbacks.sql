CREATE TABLE callbacks (
	key TEXT PRIMARY KEY,
	secrets BLOB NOT NULL,
	record TEXT NOT NULL -- JSON, without the secrets
) STRICT;
