CREATE TABLE @.actions (
	sequence bigserial UNIQUE,
	key bytea PRIMARY KEY,
	request bytea NOT NULL,
	at timestamptz NOT NULL,
	outcome bytea -- NULL while it is under way
);
CREATE INDEX actions_at ON @.actions (at);
