ALTER TABLE subscriptions ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
DROP INDEX subscriptions_principal;
CREATE INDEX subscriptions_callback ON subscriptions (principal, url);
CREATE INDEX verifications_until ON verifications (until);
