-- earlier builds take cursors with a proof for malformed ones
ALTER TABLE @.logs ADD COLUMN kept_proof bigint NOT NULL DEFAULT 0; -- of the entry at kept, 0 when unknown
ALTER TABLE @.store ADD COLUMN salt bigint NOT NULL DEFAULT 0; -- type life
-- proof is store.Entry.Proof.
CREATE FUNCTION @.proof(event_id bytea, stamp text, data bytea) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT greatest(('x' || encode(substr(sha256(event_id || '\x00'::bytea || convert_to(stamp, 'UTF8') || '\x00'::bytea || substr(data, 1, 256)), 1, 4), 'hex'))::bit(32)::bigint, 1)
$$;
-- begin_epochs is Store.BeginEpochs, and what a failover does: leases and fences of before mean nothing after it.
CREATE FUNCTION @.begin_epochs(above bigint DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	begun bigint;
BEGIN
	UPDATE @.store SET generation = greatest(generation, above) + 1, salt = hashtextextended(gen_random_uuid()::text, 0) RETURNING generation INTO begun;
	DELETE FROM @.leases;
	RETURN begun;
END $$;
