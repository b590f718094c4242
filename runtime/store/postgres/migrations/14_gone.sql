-- append as before, but of a log that is gone, with a backup that was put back, it says so, as append_all does: nothing is taken
-- for appended.
CREATE OR REPLACE FUNCTION @.append(of_log bigint, ids bytea[], audiences bytea[], hashes bigint[], timestamps text[], datas bytea[], metas bytea[],
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
