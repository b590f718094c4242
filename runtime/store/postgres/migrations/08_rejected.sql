CREATE TABLE @.rejected (
	id bigserial PRIMARY KEY, -- not that of the outbox: who may insert there can choose it, and again
	at timestamptz NOT NULL,
	reason text NOT NULL,
	log text NOT NULL,
	event_id bytea NOT NULL,
	timestamp text NOT NULL,
	data bytea NOT NULL,
	meta bytea,
	targets bytea,
	once boolean NOT NULL,
	above bigint NOT NULL
);
-- begin_write as before, but for a role that may not ask for the timeline: its writes do not fail, and the
-- generation alone tells it of a failover that others have noticed.
CREATE FUNCTION @.timeline() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
	RETURN '';
END $$;
CREATE OR REPLACE FUNCTION @.begin_write(expected bigint, old_timeline text, durable boolean) RETURNS void LANGUAGE plpgsql AS $$
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
