-- begin_write comes first in a transaction that writes: it refuses to go on in another generation,
-- and makes the commit wait for the disk where the session's default would not. The writes of a role that may not ask
-- for the timeline do not fail: the generation alone tells it of a failover that others have noticed.
CREATE FUNCTION @.begin_write(expected bigint, old_timeline text, durable boolean) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;
-- timeline returns the server's timeline, '' if the role may not ask for it.
CREATE FUNCTION @.timeline() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
	RETURN '';
END $$;
-- begin_epochs is Store.BeginEpochs, and what a failover does: leases and fences of before mean nothing after it.
CREATE FUNCTION @.begin_epochs(above bigint DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	begun bigint;
BEGIN
	UPDATE @.store SET generation = greatest(generation, above) + 1, salt = hashtextextended(gen_random_uuid()::text, 0) RETURNING generation INTO begun;
	DELETE FROM @.leases;
	RETURN begun;
END $$;
-- hold keeps the shard from being claimed until the transaction ends, when it is held as given in this generation: an
-- older copy that was put back brings holds back whose leases are over (REP-19).
CREATE FUNCTION @.hold(of_topic text, of_number integer, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM @.shards WHERE topic = of_topic AND number = of_number AND fence = expected
		AND expected >> 40 = (SELECT generation FROM @.store) FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'shard % of % is not held by %', of_number, of_topic, expected USING ERRCODE = 'MC002';
	END IF;
END $$;
-- append numbers the entries that do not stand already and inserts them. The log's row is locked by a
-- statement before the one that looks, whose snapshot so has every entry of the log. What retention no
-- longer covers does not stand, deleted or not. Entries none of which may stand already are inserted without looking:
-- planning nothing and joining nothing they take a third of the time. Of a log that is gone, with a backup that was put
-- back, it says so: nothing is taken for appended.
--
-- A function keeps its plan, which a session that is shared by a pooler cannot do by prepared statements. A plan of when
-- the log was small must not cost more as it grows, and planning anew for each group of entries took as long as
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
-- append_all is append for several logs, of entries none of which may stand already: so many (counts) are appended to each
-- of of_logs, which are all locked first, in order of their ids, those with a count of 0 too. ofs are the entries' logs,
-- befores how many to the same log come before each. It returns the heads of before. Eight logs with three entries each take
-- a quarter of what eight calls of append do.
CREATE FUNCTION @.append_all(of_logs bigint[], counts bigint[], ofs bigint[], befores bigint[], ids bytea[], audiences bytea[], hashes bigint[],
	timestamps text[], datas bytea[], metas bytea[], all_targets bytea[], cursors bytea[]) RETURNS TABLE (of_log bigint, head bigint)
	LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	here bigint;
BEGIN
	PERFORM 1 FROM @.logs WHERE id = ANY (of_logs) ORDER BY id FOR UPDATE;
	RETURN QUERY SELECT l.id, l.head FROM @.logs l WHERE l.id = ANY (of_logs);
	GET DIAGNOSTICS here = ROW_COUNT;
	IF here <> cardinality(of_logs) THEN
		RAISE EXCEPTION '% of % logs are gone', cardinality(of_logs) - here, cardinality(of_logs) USING ERRCODE = 'no_data_found';
	END IF;
	INSERT INTO @.entries (log, position, appended, event_id, id_hash, audience, timestamp, data, meta, targets, cursor)
		SELECT i.log, l.head + i.before + 1, clock_timestamp(), i.event_id, i.id_hash, i.audience, i.timestamp, i.data, i.meta, i.targets, i.cursor
		FROM unnest(ofs, befores, ids, audiences, hashes, timestamps, datas, metas, all_targets, cursors)
			AS i (log, before, event_id, audience, id_hash, timestamp, data, meta, targets, cursor) JOIN @.logs l ON l.id = i.log;
	UPDATE @.logs l SET head = l.head + c.count FROM unnest(of_logs, counts) AS c (log, count) WHERE l.id = c.log AND c.count > 0;
END $$;
-- proof is store.Entry.Proof.
CREATE FUNCTION @.proof(event_id bytea, stamp text, data bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
	RETURN greatest(('x' || encode(substr(sha256(event_id || '\x00'::bytea || convert_to(stamp, 'UTF8') || '\x00'::bytea || substr(data, 1, 256)), 1, 4), 'hex'))::bit(32)::bigint, 1);
END $$;
-- What processes ask for all the time is in functions, which keep their plans. None is compiled (jit): PostgreSQL takes store for
-- a table of hundreds of rows until it is analyzed, which a row alone never causes, and compiled each look at 16 logs.
--
-- look returns the rows of logs, with the proof of the entry at a position of each, 0 where there is none, and the store's life.
-- The position is written as a range in order, for which entries_pkey does alone: an equality leads to entries_id where the
-- plan is made of an empty table, and that reads all of the log ever after.
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
-- newest returns the entries of logs, each beyond a position up to another, log by log; it ends where they are large.
CREATE FUNCTION @.newest(of_logs bigint[], afters bigint[], up_tos bigint[], bytes bigint) RETURNS TABLE (log bigint, "position" bigint,
	event_id bytea, "timestamp" text, data bytea, meta bytea, targets bytea, cursor bytea)
	LANGUAGE plpgsql STABLE SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT x.log, x.position, x.event_id, x.timestamp, x.data, x.meta, x.targets, x.cursor FROM (
			SELECT r.n, e.*, sum(octet_length(e.data) + coalesce(octet_length(e.meta), 0)) OVER (ORDER BY r.n, e.position
				ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM unnest(of_logs, afters, up_tos) WITH ORDINALITY AS r (log, after, up_to, n)
				CROSS JOIN LATERAL (SELECT * FROM @.entries WHERE log = r.log AND position > r.after AND position <= r.up_to ORDER BY position) AS e) AS x
		WHERE before IS NULL OR before < bytes ORDER BY n, position;
END $$;
