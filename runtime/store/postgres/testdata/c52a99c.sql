CREATE SCHEMA mcpe_of_c52a99c;
CREATE FUNCTION mcpe_of_c52a99c.append(of_log bigint, ids bytea[], audiences bytea[], hashes bigint[], timestamps text[], datas bytea[], metas bytea[], all_targets bytea[], cursors bytea[], onces boolean[], aboves bigint[]) RETURNS TABLE(n bigint, at bigint, stands bytea)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$ -- a plan of when the log was small must not cost more as it grows
#variable_conflict use_column
BEGIN
	PERFORM 1 FROM "mcpe_of_c52a99c".logs WHERE id = of_log FOR UPDATE;
	RETURN QUERY
	WITH l AS (
		SELECT head, greatest(kept, CASE WHEN max_count > 0 THEN head - max_count ELSE 0 END) AS evicted,
			CASE WHEN max_age > 0 THEN clock_timestamp() - (max_age / 1000.0) * interval '1 microsecond' END AS since
		FROM "mcpe_of_c52a99c".logs WHERE id = of_log
	), input AS (
		SELECT * FROM unnest(ids, audiences, hashes, timestamps, datas, metas, all_targets, cursors,
			onces, aboves)
			WITH ORDINALITY AS i (event_id, audience, id_hash, timestamp, data, meta, targets, cursor, once, above, n)
	), judged AS MATERIALIZED (
		SELECT i.*, s.position AS stands_at, s.data AS stands, l.head
		FROM l CROSS JOIN input i LEFT JOIN LATERAL (
			SELECT e.position, e.data FROM "mcpe_of_c52a99c".entries e
			WHERE i.once AND e.log = of_log AND e.id_hash = i.id_hash AND e.position > greatest(i.above, l.evicted)
				AND e.event_id = i.event_id AND e.audience = i.audience AND (l.since IS NULL OR e.appended >= l.since)
			ORDER BY e.position DESC LIMIT 1) s ON true
	), fresh AS MATERIALIZED (
		SELECT *, head + row_number() OVER (ORDER BY n) AS position FROM judged WHERE stands_at IS NULL
	), inserted AS (
		INSERT INTO "mcpe_of_c52a99c".entries (log, position, appended, event_id, id_hash, audience, timestamp, data, meta, targets, cursor)
		SELECT of_log, position, clock_timestamp(), event_id, id_hash, audience, timestamp, data, meta, targets, cursor FROM fresh ORDER BY position
	), counted AS (
		UPDATE "mcpe_of_c52a99c".logs SET head = f.last FROM (SELECT max(position) AS last FROM fresh) f WHERE id = of_log AND f.last IS NOT NULL
	)
	SELECT n, position, NULL::bytea FROM fresh UNION ALL SELECT n, stands_at, stands FROM judged WHERE stands_at IS NOT NULL;
END $$;
CREATE FUNCTION mcpe_of_c52a99c.begin_write(expected bigint, old_timeline text, durable boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
	PERFORM 1 FROM "mcpe_of_c52a99c".store WHERE generation = expected;
	IF NOT FOUND OR old_timeline <> '' AND old_timeline <> substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) THEN
		RAISE EXCEPTION 'generation % of the store is over', expected USING ERRCODE = 'MC001';
	END IF;
	IF durable THEN
	END IF;
END $$;
CREATE FUNCTION mcpe_of_c52a99c.hold(of_topic text, of_number integer, expected bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
	PERFORM 1 FROM "mcpe_of_c52a99c".shards WHERE topic = of_topic AND number = of_number AND fence = expected FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'shard % of % is not held by %', of_number, of_topic, expected USING ERRCODE = 'MC002';
	END IF;
END $$;
CREATE TABLE mcpe_of_c52a99c.actions (
    sequence bigint NOT NULL,
    key bytea NOT NULL,
    request bytea NOT NULL,
    at timestamp with time zone NOT NULL,
    outcome bytea
);
CREATE SEQUENCE mcpe_of_c52a99c.actions_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mcpe_of_c52a99c.actions_sequence_seq OWNED BY mcpe_of_c52a99c.actions.sequence;
CREATE TABLE mcpe_of_c52a99c.attempts (
    sequence bigint NOT NULL,
    subscription text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL,
    count integer NOT NULL,
    made bytea NOT NULL
);
CREATE SEQUENCE mcpe_of_c52a99c.attempts_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mcpe_of_c52a99c.attempts_sequence_seq OWNED BY mcpe_of_c52a99c.attempts.sequence;
CREATE TABLE mcpe_of_c52a99c.callbacks (
    key bytea NOT NULL,
    secrets bytea NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.concerns (
    subscription text NOT NULL COLLATE pg_catalog."C",
    log text NOT NULL,
    generation bigint NOT NULL,
    first bigint NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.cursors (
    key bytea NOT NULL,
    cursor bytea NOT NULL,
    event_ids bytea NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.entries (
    log bigint NOT NULL,
    "position" bigint NOT NULL,
    appended timestamp with time zone NOT NULL,
    event_id bytea NOT NULL,
    id_hash bigint NOT NULL,
    audience bytea NOT NULL,
    "timestamp" text NOT NULL,
    data bytea NOT NULL,
    meta bytea,
    targets bytea,
    cursor bytea NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.leases (
    fence bigint NOT NULL,
    name text NOT NULL,
    expires timestamp with time zone NOT NULL,
    types text NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.logs (
    id bigint NOT NULL,
    name text NOT NULL,
    epoch bigint NOT NULL,
    head bigint DEFAULT 0 NOT NULL,
    kept bigint DEFAULT 0 NOT NULL,
    max_age bigint NOT NULL,
    max_count bigint NOT NULL
)
WITH (fillfactor='50');
CREATE SEQUENCE mcpe_of_c52a99c.logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mcpe_of_c52a99c.logs_id_seq OWNED BY mcpe_of_c52a99c.logs.id;
CREATE TABLE mcpe_of_c52a99c.marks (
    log text NOT NULL,
    topic text NOT NULL,
    shard integer NOT NULL,
    "position" bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE mcpe_of_c52a99c.outbox (
    id bigint NOT NULL,
    log text NOT NULL,
    event_id bytea NOT NULL,
    "timestamp" text NOT NULL,
    data bytea NOT NULL,
    meta bytea,
    targets bytea,
    once boolean NOT NULL,
    above bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE SEQUENCE mcpe_of_c52a99c.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mcpe_of_c52a99c.outbox_id_seq OWNED BY mcpe_of_c52a99c.outbox.id;
CREATE TABLE mcpe_of_c52a99c.quotas (
    kind integer NOT NULL,
    principal bytea NOT NULL,
    used bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE mcpe_of_c52a99c.received (
    sequence bigint NOT NULL,
    key bytea NOT NULL,
    event_id bytea NOT NULL,
    body bytea NOT NULL
);
CREATE SEQUENCE mcpe_of_c52a99c.received_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mcpe_of_c52a99c.received_sequence_seq OWNED BY mcpe_of_c52a99c.received.sequence;
CREATE TABLE mcpe_of_c52a99c.schemas (
    event text NOT NULL,
    ordinal integer NOT NULL,
    fingerprint text NOT NULL,
    input bytea NOT NULL,
    payload bytea NOT NULL,
    floor bigint NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.shards (
    topic text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    fence bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE mcpe_of_c52a99c.states (
    key text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL,
    revision bigint NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.store (
    one integer NOT NULL,
    version integer NOT NULL,
    compatible integer NOT NULL,
    generation bigint NOT NULL,
    system text NOT NULL,
    timeline text NOT NULL,
    last_fence bigint NOT NULL,
    sealed bytea,
    CONSTRAINT store_one_check CHECK ((one = 1))
);
CREATE TABLE mcpe_of_c52a99c.subscriptions (
    id text NOT NULL COLLATE pg_catalog."C",
    event text NOT NULL,
    shard integer NOT NULL,
    principal bytea NOT NULL,
    url bytea NOT NULL,
    arguments bytea NOT NULL,
    secrets bytea NOT NULL,
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
    settled text NOT NULL,
    upstream bytea NOT NULL,
    suspended boolean NOT NULL,
    suspended_at bigint NOT NULL,
    failed_since bigint NOT NULL,
    last_delivery bigint NOT NULL,
    last_error text NOT NULL,
    paused_at bigint DEFAULT 0 NOT NULL,
    schema text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE mcpe_of_c52a99c.topics (
    name text NOT NULL,
    shards integer NOT NULL
);
CREATE TABLE mcpe_of_c52a99c.verifications (
    principal bytea NOT NULL,
    url bytea NOT NULL,
    method text NOT NULL,
    at bigint NOT NULL,
    until bigint NOT NULL
);
ALTER TABLE ONLY mcpe_of_c52a99c.actions ALTER COLUMN sequence SET DEFAULT nextval('mcpe_of_c52a99c.actions_sequence_seq'::regclass);
ALTER TABLE ONLY mcpe_of_c52a99c.attempts ALTER COLUMN sequence SET DEFAULT nextval('mcpe_of_c52a99c.attempts_sequence_seq'::regclass);
ALTER TABLE ONLY mcpe_of_c52a99c.logs ALTER COLUMN id SET DEFAULT nextval('mcpe_of_c52a99c.logs_id_seq'::regclass);
ALTER TABLE ONLY mcpe_of_c52a99c.outbox ALTER COLUMN id SET DEFAULT nextval('mcpe_of_c52a99c.outbox_id_seq'::regclass);
ALTER TABLE ONLY mcpe_of_c52a99c.received ALTER COLUMN sequence SET DEFAULT nextval('mcpe_of_c52a99c.received_sequence_seq'::regclass);
INSERT INTO mcpe_of_c52a99c.callbacks VALUES ('\x6362', '\x005b7b226b6579223a225953316a59577873596d466a61334d746332566a636d56304c57396d4c544d794c574a356447567a4c53303d227d5d', '\x7b2275726c223a22222c2270617468223a22222c2273656372657473223a6e756c6c7d');
INSERT INTO mcpe_of_c52a99c.concerns VALUES ('sub_1', 'log', 1, 1);
INSERT INTO mcpe_of_c52a99c.entries VALUES (1, 1, '2026-11-22 23:02:04.36626+00', '\x6530', -7680074306845243956, '\x', '2026-01-02T03:04:05Z', '\x7b226964223a226530227d', NULL, NULL, '\x');
INSERT INTO mcpe_of_c52a99c.entries VALUES (1, 2, '2026-11-22 23:02:04.369888+00', '\x6531', -3203323519911582468, '\x', '2026-01-02T03:04:05Z', '\x7b226964223a226531227d', NULL, NULL, '\x');
INSERT INTO mcpe_of_c52a99c.entries VALUES (1, 3, '2026-11-22 23:02:04.370446+00', '\x6532', -1770282193318939279, '\x', '2026-01-02T03:04:05Z', '\x7b226964223a226532227d', NULL, NULL, '\x');
INSERT INTO mcpe_of_c52a99c.leases VALUES (1099511627777, 'gone', '2026-11-22 23:02:05.385583+00', '{"log":"f"}');
INSERT INTO mcpe_of_c52a99c.logs VALUES (1, 'log', 3078929597601226681, 3, 0, 0, 100);
INSERT INTO mcpe_of_c52a99c.outbox VALUES (1, 'log', '\x6279206c69622f707120312e3130', '2026-01-01T00:00:00Z', '\x7b7d', '\x', '\x', false, 0);
INSERT INTO mcpe_of_c52a99c.outbox VALUES (2, 'log', '\x62792d6c69622d70712d312e3130', '2026-01-01T00:00:00Z', '\x7b226964223a2277227d', '\x', '\x', false, 0);
INSERT INTO mcpe_of_c52a99c.outbox VALUES (3, 'log', '\x7761697473', '2026-01-02T03:04:05Z', '\x7b226964223a227761697473227d', NULL, NULL, true, 0);
INSERT INTO mcpe_of_c52a99c.quotas VALUES (0, '\x616e6e', 1);
INSERT INTO mcpe_of_c52a99c.quotas VALUES (1, '\x', 1);
INSERT INTO mcpe_of_c52a99c.store VALUES (1, 6, 1, 1, '7711134992622348572', '00000001', 1, NULL);
INSERT INTO mcpe_of_c52a99c.subscriptions VALUES ('sub_1', 'log', 0, '\x616e6e', '\x68747470733a2f2f612e746573742f', '\x7b7d', '\x005b7b226b6579223a225953317a5a574e795a585174623259744d7a4974596e6c305a584d744c5330744c5330744c5330744c53303d227d5d', 0, 1, 1, 0, 0, 0, 0, false, 0, 0, '[]', '\x', false, 0, 0, 0, '', 0, '');
SELECT pg_catalog.setval('mcpe_of_c52a99c.actions_sequence_seq', 1, false);
SELECT pg_catalog.setval('mcpe_of_c52a99c.attempts_sequence_seq', 1, false);
SELECT pg_catalog.setval('mcpe_of_c52a99c.logs_id_seq', 1, true);
SELECT pg_catalog.setval('mcpe_of_c52a99c.outbox_id_seq', 3, true);
SELECT pg_catalog.setval('mcpe_of_c52a99c.received_sequence_seq', 1, false);
ALTER TABLE ONLY mcpe_of_c52a99c.actions
    ADD CONSTRAINT actions_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mcpe_of_c52a99c.actions
    ADD CONSTRAINT actions_sequence_key UNIQUE (sequence);
ALTER TABLE ONLY mcpe_of_c52a99c.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY mcpe_of_c52a99c.callbacks
    ADD CONSTRAINT callbacks_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mcpe_of_c52a99c.concerns
    ADD CONSTRAINT concerns_pkey PRIMARY KEY (subscription, log);
ALTER TABLE ONLY mcpe_of_c52a99c.cursors
    ADD CONSTRAINT cursors_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mcpe_of_c52a99c.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (log, "position");
ALTER TABLE ONLY mcpe_of_c52a99c.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (fence);
ALTER TABLE ONLY mcpe_of_c52a99c.logs
    ADD CONSTRAINT logs_name_key UNIQUE (name);
ALTER TABLE ONLY mcpe_of_c52a99c.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mcpe_of_c52a99c.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (log, topic, shard);
ALTER TABLE ONLY mcpe_of_c52a99c.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mcpe_of_c52a99c.quotas
    ADD CONSTRAINT quotas_pkey PRIMARY KEY (kind, principal);
ALTER TABLE ONLY mcpe_of_c52a99c.received
    ADD CONSTRAINT received_key_event_id_key UNIQUE (key, event_id);
ALTER TABLE ONLY mcpe_of_c52a99c.received
    ADD CONSTRAINT received_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY mcpe_of_c52a99c.schemas
    ADD CONSTRAINT schemas_pkey PRIMARY KEY (event, ordinal);
ALTER TABLE ONLY mcpe_of_c52a99c.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (topic, number);
ALTER TABLE ONLY mcpe_of_c52a99c.states
    ADD CONSTRAINT states_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mcpe_of_c52a99c.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (one);
ALTER TABLE ONLY mcpe_of_c52a99c.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mcpe_of_c52a99c.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mcpe_of_c52a99c.verifications
    ADD CONSTRAINT verifications_pkey PRIMARY KEY (principal, url);
CREATE INDEX actions_at ON mcpe_of_c52a99c.actions USING btree (at);
CREATE INDEX attempts_subscription ON mcpe_of_c52a99c.attempts USING btree (subscription, sequence) INCLUDE (count);
CREATE INDEX concerns_log ON mcpe_of_c52a99c.concerns USING btree (log, subscription);
CREATE INDEX entries_id ON mcpe_of_c52a99c.entries USING btree (log, id_hash, "position");
CREATE INDEX received_key ON mcpe_of_c52a99c.received USING btree (key, sequence);
CREATE INDEX subscriptions_callback ON mcpe_of_c52a99c.subscriptions USING btree (principal, url);
CREATE INDEX subscriptions_shard ON mcpe_of_c52a99c.subscriptions USING btree (event, shard, id);
CREATE INDEX verifications_until ON mcpe_of_c52a99c.verifications USING btree (until);
ALTER TABLE ONLY mcpe_of_c52a99c.shards
    ADD CONSTRAINT shards_topic_fkey FOREIGN KEY (topic) REFERENCES mcpe_of_c52a99c.topics(name);
