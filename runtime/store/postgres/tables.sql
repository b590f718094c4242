-- The schema's name stands for "@" before a ".".
--
-- What users and authors name is kept as bytes: it is compared by them, and PostgreSQL's text takes neither every byte
-- nor, in every database, every character. Times are Unix nanoseconds where they come from a caller, 0 for none, and
-- timestamps where they are the database's.
CREATE TABLE @.store (
	one integer PRIMARY KEY CHECK (one = 1),
	version integer NOT NULL,
	min_version integer NOT NULL, -- the oldest version that a build must know
	generation bigint NOT NULL,
	system text NOT NULL, -- identifier of the database system, '' when it cannot be read
	timeline text NOT NULL, -- '' when it cannot be read
	last_fence bigint NOT NULL,
	sealed bytea, -- what the key is checked with
	salt bigint NOT NULL DEFAULT 0 -- type life
);
CREATE TABLE @.logs (
	id bigserial PRIMARY KEY,
	name text NOT NULL UNIQUE,
	epoch bigint NOT NULL,
	head bigint NOT NULL DEFAULT 0, -- the last position: appends take turns by this row
	kept bigint NOT NULL DEFAULT 0, -- positions up to it may have been deleted
	kept_proof bigint NOT NULL DEFAULT 0, -- of the entry at kept, 0 for none
	max_age bigint NOT NULL, -- nanoseconds, 0 for no bound
	max_count bigint NOT NULL -- 0 for no bound
) WITH (fillfactor = 50);
CREATE TABLE @.entries (
	log bigint NOT NULL,
	position bigint NOT NULL,
	appended timestamptz NOT NULL,
	event_id bytea NOT NULL,
	id_hash bigint NOT NULL, -- function idHash, of event_id and audience
	audience bytea NOT NULL, -- function audience, of targets
	timestamp text NOT NULL,
	data bytea NOT NULL,
	meta bytea,
	targets bytea, -- JSON array
	cursor bytea NOT NULL,
	PRIMARY KEY (log, position)
);
CREATE INDEX entries_id ON @.entries (log, id_hash, position);
CREATE TABLE @.subscriptions (
	id text COLLATE "C" PRIMARY KEY,
	event text NOT NULL,
	shard integer NOT NULL,
	principal bytea NOT NULL,
	url bytea NOT NULL,
	arguments bytea NOT NULL,
	secrets bytea NOT NULL, -- package sealed
	codes integer NOT NULL,
	generation bigint NOT NULL,
	revision bigint NOT NULL,
	created bigint NOT NULL,
	refreshed bigint NOT NULL,
	expires bigint NOT NULL,
	not_before bigint NOT NULL,
	truncated boolean NOT NULL,
	epoch bigint NOT NULL,
	base bigint NOT NULL,
	settled text NOT NULL, -- JSON array of [from, to]
	open boolean NOT NULL, -- something above base is not settled
	upstream bytea NOT NULL,
	suspended boolean NOT NULL,
	suspended_after bigint NOT NULL,
	failed_since bigint NOT NULL,
	last_delivery bigint NOT NULL,
	last_error text NOT NULL,
	slow boolean NOT NULL, -- the last response took a second or longer
	paused_at bigint NOT NULL,
	admitted_generation bigint NOT NULL,
	admitted bigint NOT NULL, -- position in the generation
	requests text NOT NULL, -- JSON object, empty for none
	report text NOT NULL, -- JSON object, empty for none
	schema text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX subscriptions_shard ON @.subscriptions (event, shard, id);
CREATE INDEX subscriptions_callback ON @.subscriptions (principal, url);
CREATE TABLE @.marks (
	log text NOT NULL,
	topic text NOT NULL,
	shard integer NOT NULL,
	position bigint NOT NULL,
	PRIMARY KEY (log, topic, shard)
) WITH (fillfactor = 50);
CREATE TABLE @.verifications (
	principal bytea NOT NULL,
	url bytea NOT NULL,
	method text NOT NULL,
	at bigint NOT NULL,
	until bigint NOT NULL,
	PRIMARY KEY (principal, url)
);
CREATE INDEX verifications_until ON @.verifications (until);
CREATE TABLE @.quotas (
	kind integer NOT NULL, -- one of the quota kinds
	principal bytea NOT NULL, -- empty where all count
	used bigint NOT NULL,
	PRIMARY KEY (kind, principal)
) WITH (fillfactor = 50);
CREATE TABLE @.leases (
	fence bigint PRIMARY KEY,
	name text NOT NULL,
	expires timestamptz NOT NULL,
	types text NOT NULL, -- JSON object
	report bytea -- JSON, for operators
);
CREATE TABLE @.topics (
	name text PRIMARY KEY,
	shards integer NOT NULL
);
CREATE TABLE @.shards (
	topic text COLLATE "C" NOT NULL REFERENCES @.topics (name),
	number integer NOT NULL,
	fence bigint NOT NULL DEFAULT 0, -- of the lease that holds it
	PRIMARY KEY (topic, number)
) WITH (fillfactor = 50);
CREATE TABLE @.states (
	key text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL,
	revision bigint NOT NULL
);
CREATE TABLE @.schemas (
	event text NOT NULL,
	ordinal integer NOT NULL,
	fingerprint text NOT NULL,
	input bytea NOT NULL,
	payload bytea NOT NULL,
	floor bigint NOT NULL,
	PRIMARY KEY (event, ordinal)
);
CREATE TABLE @.attempts (
	sequence bigserial PRIMARY KEY,
	subscription text COLLATE "C" NOT NULL,
	last bigint NOT NULL, -- when the latest was made
	count integer NOT NULL,
	made bytea NOT NULL -- package attemptlog
);
CREATE INDEX attempts_subscription ON @.attempts (subscription, sequence) INCLUDE (count);
CREATE TABLE @.cursors (
	key bytea PRIMARY KEY,
	cursor bytea NOT NULL,
	event_ids bytea NOT NULL -- JSON array
);
CREATE TABLE @.received (
	sequence bigserial PRIMARY KEY,
	key bytea NOT NULL,
	event_id bytea NOT NULL,
	body bytea NOT NULL,
	UNIQUE (key, event_id)
);
CREATE INDEX received_key ON @.received (key, sequence);
CREATE TABLE @.callbacks (
	key bytea PRIMARY KEY,
	secrets bytea NOT NULL, -- package sealed
	record bytea NOT NULL -- JSON, without the secrets
);
