CREATE TABLE quotas (
	kind TEXT NOT NULL, -- the table whose rows are counted
	principal TEXT NOT NULL,
	used INTEGER NOT NULL,
	PRIMARY KEY (kind, principal)
) STRICT, WITHOUT ROWID;
CREATE TABLE totals (
	kind TEXT PRIMARY KEY,
	used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO quotas SELECT 'subscriptions', principal, count(*) FROM subscriptions GROUP BY principal;
INSERT INTO quotas SELECT 'verifications', principal, count(*) FROM verifications GROUP BY principal;
INSERT INTO totals SELECT 'subscriptions', count(*) FROM subscriptions;
INSERT INTO totals SELECT 'verifications', count(*) FROM verifications;
-- A row that replaces another one is not counted again. The statements of a trigger resolve conflicts as INSERT OR REPLACE
-- does that fires it: none of them may have one.
CREATE TRIGGER subscriptions_added BEFORE INSERT ON subscriptions WHEN NOT EXISTS (SELECT 1 FROM subscriptions WHERE id = NEW.id) BEGIN
	INSERT INTO quotas SELECT 'subscriptions', NEW.principal, 0
		WHERE NOT EXISTS (SELECT 1 FROM quotas WHERE kind = 'subscriptions' AND principal = NEW.principal);
	UPDATE quotas SET used = used + 1 WHERE kind = 'subscriptions' AND principal = NEW.principal;
	UPDATE totals SET used = used + 1 WHERE kind = 'subscriptions';
END;
CREATE TRIGGER subscriptions_removed AFTER DELETE ON subscriptions BEGIN
	UPDATE quotas SET used = used - 1 WHERE kind = 'subscriptions' AND principal = OLD.principal;
	DELETE FROM quotas WHERE kind = 'subscriptions' AND principal = OLD.principal AND used <= 0;
	UPDATE totals SET used = used - 1 WHERE kind = 'subscriptions';
END;
CREATE TRIGGER verifications_added BEFORE INSERT ON verifications
	WHEN NOT EXISTS (SELECT 1 FROM verifications WHERE principal = NEW.principal AND url = NEW.url) BEGIN
	INSERT INTO quotas SELECT 'verifications', NEW.principal, 0
		WHERE NOT EXISTS (SELECT 1 FROM quotas WHERE kind = 'verifications' AND principal = NEW.principal);
	UPDATE quotas SET used = used + 1 WHERE kind = 'verifications' AND principal = NEW.principal;
	UPDATE totals SET used = used + 1 WHERE kind = 'verifications';
END;
CREATE TRIGGER verifications_removed AFTER DELETE ON verifications BEGIN
	UPDATE quotas SET used = used - 1 WHERE kind = 'verifications' AND principal = OLD.principal;
	DELETE FROM quotas WHERE kind = 'verifications' AND principal = OLD.principal AND used <= 0;
	UPDATE totals SET used = used - 1 WHERE kind = 'verifications';
END;
