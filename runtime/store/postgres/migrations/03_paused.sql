ALTER TABLE @.subscriptions ADD COLUMN paused_at bigint NOT NULL DEFAULT 0;
