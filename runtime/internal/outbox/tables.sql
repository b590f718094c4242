CREATE TABLE @.outbox (
	id bigserial PRIMARY KEY,
	log text NOT NULL,
	event_id bytea NOT NULL,
	timestamp text NOT NULL,
	data bytea NOT NULL,
	meta bytea,
	targets bytea,
	once boolean NOT NULL,
	above bigint NOT NULL,
	tx bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
	at timestamptz NOT NULL DEFAULT statement_timestamp() -- of the INSERT
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- The outbox is read by transactions: those that had ended when it was last read have nothing more in it, and
-- neither have the rows that were deleted since, which a long snapshot keeps in the table.
CREATE INDEX outbox_tx ON @.outbox (tx, id);
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
