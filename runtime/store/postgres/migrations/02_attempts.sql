CREATE TABLE @.attempts (
	sequence bigserial PRIMARY KEY,
	subscription text COLLATE "C" NOT NULL,
	last bigint NOT NULL, -- when the latest was made
	count integer NOT NULL,
	made bytea NOT NULL -- package attemptlog
);
CREATE INDEX attempts_subscription ON @.attempts (subscription, sequence) INCLUDE (count);
