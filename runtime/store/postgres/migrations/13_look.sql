-- What processes ask for all the time is in functions, which keep their plans. None is compiled (jit): PostgreSQL takes store for
-- a table of hundreds of rows until it is analyzed, which a row alone never causes, and compiled each look at 16 logs.
CREATE OR REPLACE FUNCTION @.proof(event_id bytea, stamp text, data bytea) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
	RETURN greatest(('x' || encode(substr(sha256(event_id || '\x00'::bytea || convert_to(stamp, 'UTF8') || '\x00'::bytea || substr(data, 1, 256)), 1, 4), 'hex'))::bit(32)::bigint, 1);
END $$;
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
