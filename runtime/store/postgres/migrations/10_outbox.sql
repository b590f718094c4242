-- The outbox is read by transactions: those that had ended when it was last read have nothing more in it, and
-- neither have the rows that were deleted since, which a long snapshot keeps in the table.
ALTER TABLE @.outbox ADD COLUMN tx bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
	ADD COLUMN at timestamptz NOT NULL DEFAULT statement_timestamp(); -- of the INSERT
CREATE INDEX outbox_tx ON @.outbox (tx, id);
