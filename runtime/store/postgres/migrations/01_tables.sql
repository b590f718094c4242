CREATE TABLE @.logs (
	id bigserial PRIMARY KEY,
	name text NOT NULL UNIQUE,
	epoch bigint NOT NULL,
	head bigint NOT NULL DEFAULT 0, -- the last position: appends take turns by this row
	kept bigint NOT NULL DEFAULT 0, -- positions up to it may have been deleted
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
	upstream bytea NOT NULL,
	suspended boolean NOT NULL,
	suspended_at bigint NOT NULL,
	failed_since bigint NOT NULL,
	last_delivery bigint NOT NULL,
	last_error text NOT NULL
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
CREATE TABLE @.concerns (
	subscription text COLLATE "C" NOT NULL,
	log text NOT NULL,
	generation bigint NOT NULL,
	first bigint NOT NULL,
	PRIMARY KEY (subscription, log)
);
CREATE INDEX concerns_log ON @.concerns (log, subscription);
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
	types text NOT NULL -- JSON object
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
CREATE TABLE @.outbox (
	id bigserial PRIMARY KEY,
	log text NOT NULL,
	event_id bytea NOT NULL,
	timestamp text NOT NULL,
	data bytea NOT NULL,
	meta bytea,
	targets bytea,
	once boolean NOT NULL,
	above bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
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

-- begin_write comes first in a transaction that writes: it refuses to go on in another generation,
-- and makes the commit wait for the disk where the session's default would not.
CREATE FUNCTION @.begin_write(expected bigint, old_timeline text, durable boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM @.store WHERE generation = expected;
	IF NOT FOUND OR old_timeline <> '' AND old_timeline <> substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) THEN
		RAISE EXCEPTION 'generation % of the store is over', expected USING ERRCODE = 'MC001';
	END IF;
	IF durable THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;
-- hold keeps the shard from being claimed until the transaction ends, when it is held as given.
CREATE FUNCTION @.hold(of_topic text, of_number integer, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM @.shards WHERE topic = of_topic AND number = of_number AND fence = expected FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'shard % of % is not held by %', of_number, of_topic, expected USING ERRCODE = 'MC002';
	END IF;
END $$;
-- append numbers the entries that do not stand already and inserts them. The log's row is locked by a
-- statement before the one that looks, whose snapshot so has every entry of the log. What retention no
-- longer covers does not stand, deleted or not. A function keeps its plan, which a session that is
-- shared by a pooler cannot do by prepared statements.
CREATE FUNCTION @.append(of_log bigint, ids bytea[], audiences bytea[], hashes bigint[], timestamps text[], datas bytea[], metas bytea[],
	all_targets bytea[], cursors bytea[], onces boolean[], aboves bigint[]) RETURNS TABLE (n bigint, at bigint, stands bytea)
	LANGUAGE plpgsql SET enable_seqscan = off AS $$ -- a plan of when the log was small must not cost more as it grows
#variable_conflict use_column
BEGIN
	PERFORM 1 FROM @.logs WHERE id = of_log FOR UPDATE;
	RETURN QUERY
	WITH l AS (
		SELECT head, greatest(kept, CASE WHEN max_count > 0 THEN head - max_count ELSE 0 END) AS evicted,
			CASE WHEN max_age > 0 THEN clock_timestamp() - (max_age / 1000.0) * interval '1 microsecond' END AS since
		FROM @.logs WHERE id = of_log
	), input AS (
		SELECT * FROM unnest(ids, audiences, hashes, timestamps, datas, metas, all_targets, cursors,
			onces, aboves)
			WITH ORDINALITY AS i (event_id, audience, id_hash, timestamp, data, meta, targets, cursor, once, above, n)
	), judged AS MATERIALIZED (
		SELECT i.*, s.position AS stands_at, s.data AS stands, l.head
		FROM l CROSS JOIN input i LEFT JOIN LATERAL (
			SELECT e.position, e.data FROM @.entries e
			WHERE i.once AND e.log = of_log AND e.id_hash = i.id_hash AND e.position > greatest(i.above, l.evicted)
				AND e.event_id = i.event_id AND e.audience = i.audience AND (l.since IS NULL OR e.appended >= l.since)
			ORDER BY e.position DESC LIMIT 1) s ON true
	), fresh AS MATERIALIZED (
		SELECT *, head + row_number() OVER (ORDER BY n) AS position FROM judged WHERE stands_at IS NULL
	), inserted AS (
		INSERT INTO @.entries (log, position, appended, event_id, id_hash, audience, timestamp, data, meta, targets, cursor)
		SELECT of_log, position, clock_timestamp(), event_id, id_hash, audience, timestamp, data, meta, targets, cursor FROM fresh ORDER BY position
	), counted AS (
		UPDATE @.logs SET head = f.last FROM (SELECT max(position) AS last FROM fresh) f WHERE id = of_log AND f.last IS NOT NULL
	)
	SELECT n, position, NULL::bytea FROM fresh UNION ALL SELECT n, stands_at, stands FROM judged WHERE stands_at IS NOT NULL;
END $$;
