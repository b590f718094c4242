-- hold as before, but for a fence of this generation only: an older copy that was put back brings holds back whose
-- leases are over (REP-19).
CREATE OR REPLACE FUNCTION @.hold(of_topic text, of_number integer, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM @.shards WHERE topic = of_topic AND number = of_number AND fence = expected
		AND expected >> 40 = (SELECT generation FROM @.store) FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'shard % of % is not held by %', of_number, of_topic, expected USING ERRCODE = 'MC002';
	END IF;
END $$;
