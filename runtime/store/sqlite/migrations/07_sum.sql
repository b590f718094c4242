ALTER TABLE entries ADD COLUMN sum INTEGER; -- row.checksum; NULL in entries up to unsummed
ALTER TABLE logs ADD COLUMN unsummed INTEGER NOT NULL DEFAULT 0;
UPDATE logs SET unsummed = head;
