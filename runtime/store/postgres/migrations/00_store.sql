CREATE TABLE @.store (
	one integer PRIMARY KEY CHECK (one = 1),
	version integer NOT NULL,
	compatible integer NOT NULL, -- the oldest version that a build must know
	generation bigint NOT NULL,
	system text NOT NULL, -- identifier of the database system, '' when it cannot be read
	timeline text NOT NULL, -- '' when it cannot be read
	last_fence bigint NOT NULL,
	sealed bytea -- what the key is checked with
)
