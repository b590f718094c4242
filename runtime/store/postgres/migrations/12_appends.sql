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
