CREATE INDEX entries_id ON entries (log, event_id, audience, position);
