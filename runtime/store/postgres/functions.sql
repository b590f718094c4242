-- begin_write begins every writing transaction. It fails if another generation has begun, and makes the commit wait
-- for the disk if the session's default would not. lock_wait is the transaction's lock_timeout, '' for the default. If
-- the role may not read the timeline, writes do not fail: the role notices a failover only by the generation that other
-- processes have raised.
CREATE FUNCTION @.begin_write(expected bigint, old_timeline text, durable boolean, lock_wait text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	over boolean;
BEGIN
	PERFORM 1 FROM @.store WHERE generation = expected;
	over := NOT FOUND;
	IF NOT over AND old_timeline <> '' THEN
		over := @.timeline() NOT IN ('', old_timeline);
	END IF;
	IF over THEN
		RAISE EXCEPTION 'generation % of the store is over', expected USING ERRCODE = 'MC001';
	END IF;
	IF durable THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	IF lock_wait <> '' THEN
		PERFORM set_config('lock_timeout', lock_wait, true);
	END IF;
END $$;
-- timeline returns the server's timeline, or '' if the role may not read it.
CREATE FUNCTION @.timeline() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
	RETURN '';
END $$;
-- begin_epochs implements Store.BeginEpochs and is also called after a failover. It invalidates earlier leases and
-- fences.
CREATE FUNCTION @.begin_epochs(above bigint DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	begun bigint;
BEGIN
	UPDATE @.store SET generation = greatest(generation, above) + 1, salt = hashtextextended(gen_random_uuid()::text, 0) RETURNING generation INTO begun;
	DELETE FROM @.leases;
	RETURN begun;
END $$;
-- hold fails unless the shard is held as given in this generation, and keeps others from claiming the shard until the
-- transaction ends. The generation matters because a restored backup contains holds whose leases have ended (REP-19).
CREATE FUNCTION @.hold(of_topic text, of_number integer, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM @.shards WHERE topic = of_topic AND number = of_number AND fence = expected
		AND expected >> 40 = (SELECT generation FROM @.store) FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'shard % of % is not held by %', of_number, of_topic, expected USING ERRCODE = 'MC002';
	END IF;
END $$;
-- append assigns positions to the entries that do not exist yet and inserts them. One statement locks the log's row
-- and the next one looks for ids, so that its snapshot has every entry of the log. Entries that retention no longer
-- covers do not count, deleted or not. If none of the entries can exist already, append inserts them without looking,
-- which takes a third of the time because it plans and joins nothing. It fails if the log does not exist any more, as
-- after a restore of a backup, so that nothing counts as appended.
--
-- A function keeps its plan; prepared statements cannot in a session that a pooler shares. A plan made while the log
-- was small must not become expensive as the log grows, and planning for each group of entries took as long as
-- inserting twenty of them.
CREATE FUNCTION @.append(of_log bigint, ids bytea[], audiences bytea[], hashes bigint[], timestamps text[], datas bytea[], metas bytea[],
	all_targets bytea[], cursors bytea[], onces boolean[], aboves bigint[]) RETURNS TABLE (n bigint, at bigint, stands bytea)
	LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	last bigint;
BEGIN
	IF NOT (true = ANY (onces)) THEN
		UPDATE @.logs SET head = head + cardinality(ids) WHERE id = of_log RETURNING head - cardinality(ids) INTO last;
		IF last IS NULL THEN
			RAISE EXCEPTION 'log % is gone', of_log USING ERRCODE = 'no_data_found';
		END IF;
		INSERT INTO @.entries (log, position, appended, event_id, id_hash, audience, timestamp, data, meta, targets, cursor)
			SELECT of_log, last + i.n, clock_timestamp(), i.event_id, i.id_hash, i.audience, i.timestamp, i.data, i.meta, i.targets, i.cursor
			FROM unnest(ids, audiences, hashes, timestamps, datas, metas, all_targets, cursors)
				WITH ORDINALITY AS i (event_id, audience, id_hash, timestamp, data, meta, targets, cursor, n);
		RETURN QUERY SELECT i, last + i, NULL::bytea FROM generate_series(1, cardinality(ids)::bigint) AS i;
		RETURN;
	END IF;
	PERFORM 1 FROM @.logs WHERE id = of_log FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'log % is gone', of_log USING ERRCODE = 'no_data_found';
	END IF;
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
-- append_all appends to several logs at once; none of the entries may exist already. It appends counts[i] entries to
-- of_logs[i]. It locks all of of_logs first, including those with a count of 0. They are in order of their ids. ofs are
-- the logs of the entries, and befores the number of entries that precede each in the same log. It returns the heads
-- before the append, and the entries of other processes up to these heads: those after tolds[i], which the caller has.
-- A query for them after the commit took longer than the append. For eight logs with three entries each append_all
-- takes a quarter of the time of eight calls of append.
CREATE FUNCTION @.append_all(of_logs bigint[], tolds bigint[], bytes bigint, counts bigint[], ofs bigint[], befores bigint[], ids bytea[],
	audiences bytea[], hashes bigint[], timestamps text[], datas bytea[], metas bytea[], all_targets bytea[], cursors bytea[])
	RETURNS TABLE (of_log bigint, head bigint, "position" bigint, event_id bytea, "timestamp" text, data bytea, meta bytea, targets bytea, cursor bytea)
	LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	heads bigint[];
BEGIN
	SELECT array_agg(l.head ORDER BY l.id) INTO heads FROM (SELECT id, head FROM @.logs WHERE id = ANY (of_logs) ORDER BY id FOR UPDATE) AS l;
	IF heads IS NULL OR cardinality(heads) <> cardinality(of_logs) THEN
		RAISE EXCEPTION 'some of % logs are gone', cardinality(of_logs) USING ERRCODE = 'no_data_found';
	END IF;
	RETURN QUERY SELECT l.id, l.head, NULL::bigint, NULL::bytea, NULL::text, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bytea
		FROM unnest(of_logs, heads) AS l (id, head);
	IF heads <> tolds THEN
		RETURN QUERY SELECT e.log, NULL::bigint, e.position, e.event_id, e.timestamp, e.data, e.meta, e.targets, e.cursor
			FROM @.newest(of_logs, tolds, heads, bytes) AS e;
	END IF;
	INSERT INTO @.entries (log, position, appended, event_id, id_hash, audience, timestamp, data, meta, targets, cursor)
		SELECT i.log, l.head + i.before + 1, clock_timestamp(), i.event_id, i.id_hash, i.audience, i.timestamp, i.data, i.meta, i.targets, i.cursor
		FROM unnest(ofs, befores, ids, audiences, hashes, timestamps, datas, metas, all_targets, cursors)
			AS i (log, before, event_id, audience, id_hash, timestamp, data, meta, targets, cursor) JOIN unnest(of_logs, heads) AS l (id, head) ON l.id = i.log;
	UPDATE @.logs l SET head = l.head + c.count FROM unnest(of_logs, counts) AS c (log, count) WHERE l.id = c.log AND c.count > 0;
END $$;
-- proof implements store.Entry.Proof.
CREATE FUNCTION @.proof(event_id bytea, stamp text, data bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
	RETURN greatest(('x' || encode(substr(sha256(event_id || '\x00'::bytea || convert_to(stamp, 'UTF8') || '\x00'::bytea || substr(data, 1, 256)), 1, 4), 'hex'))::bit(32)::bigint, 1);
END $$;
-- Frequent queries are functions, which keep their plans. None of them is compiled (jit): until the table store is
-- analyzed, which a single row never causes, PostgreSQL assumes that it has hundreds of rows, and compiled each look
-- at 16 logs.
--
-- look returns the rows of logs, with the proof of the entry at one position of each, 0 for none, and the store's
-- life. The position is written as an ordered range, which only entries_pkey supports. With an equality, a plan made
-- for an empty table uses entries_id, and from then on reads the whole log.
CREATE FUNCTION @.look(of_logs bigint[], positions bigint[]) RETURNS TABLE (log bigint, head bigint, kept bigint, max_age bigint, max_count bigint,
	proof bigint, generation bigint, salt bigint)
	LANGUAGE plpgsql STABLE SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT l.id, l.head, l.kept, l.max_age, l.max_count,
			coalesce((SELECT @.proof(e.event_id, e.timestamp, e.data) FROM @.entries e
				WHERE e.log = l.id AND e.position >= a.position AND e.position <= a.position ORDER BY e.position LIMIT 1), 0), s.generation, s.salt
		FROM unnest(of_logs, positions) AS a (log, position) JOIN @.logs l ON l.id = a.log CROSS JOIN @.store s;
END $$;
-- newest returns entries of several logs, log by log: those after one position up to another. It omits logs with more
-- than 512 of them, and stops when the entries are large.
CREATE FUNCTION @.newest(of_logs bigint[], afters bigint[], up_tos bigint[], bytes bigint) RETURNS TABLE (log bigint, "position" bigint,
	event_id bytea, "timestamp" text, data bytea, meta bytea, targets bytea, cursor bytea)
	LANGUAGE plpgsql STABLE SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT x.log, x.position, x.event_id, x.timestamp, x.data, x.meta, x.targets, x.cursor FROM (
			SELECT r.n, e.*, sum(octet_length(e.data) + coalesce(octet_length(e.meta), 0)) OVER (ORDER BY r.n, e.position
				ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM unnest(of_logs, afters, up_tos) WITH ORDINALITY AS r (log, after, up_to, n)
				JOIN LATERAL (SELECT * FROM @.entries WHERE log = r.log AND position > r.after AND position <= r.up_to ORDER BY position) AS e
				ON r.up_to - r.after <= 512) AS x
		WHERE before IS NULL OR before < bytes ORDER BY n, position;
END $$;
