ALTER TABLE logs ADD COLUMN evicted INTEGER NOT NULL DEFAULT 0; -- proof of the last entry that was deleted, 0 when unknown
