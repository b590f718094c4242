ALTER TABLE entries ADD COLUMN audience BLOB NOT NULL DEFAULT x''; -- function audience, of targets
