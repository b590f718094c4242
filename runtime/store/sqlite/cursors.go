package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Load implements [clientstore.CursorStore].
func (s *Store) Load(ctx context.Context, key string) (saved clientstore.Saved, ok bool, err error) {
	var ids string
	if ok, err := s.queryRow(ctx, "SELECT cursor, event_ids FROM cursors WHERE key = ?", []any{key}, &saved.Cursor, &ids); !ok {
		return clientstore.Saved{}, false, err
	}
	if err := json.Unmarshal([]byte(ids), &saved.EventIDs); err != nil {
		return clientstore.Saved{}, false, fmt.Errorf("%w: cursor %q: %w", ErrCorrupt, key, err)
	}
	return saved, true, nil
}

// Save implements [clientstore.CursorStore].
func (s *Store) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error { return save(ctx, w, key, saved) }, nil)
}

func save(ctx context.Context, w *session, key string, saved clientstore.Saved) error {
	ids, err := json.Marshal(saved.EventIDs)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "INSERT OR REPLACE INTO cursors (key, cursor, event_ids) VALUES (?, ?, ?)", key, saved.Cursor, string(ids))
	return err
}

// Delete implements [clientstore.CursorStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.execChange(ctx, "DELETE FROM cursors WHERE key = ?", key)
	return err
}

// PutReceived implements [clientstore.ReceivedStore].
func (s *Store) PutReceived(ctx context.Context, key string, r clientstore.Received) (fresh bool, err error) {
	n, err := s.execChange(ctx, "INSERT INTO received (key, event_id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", key, r.EventID, []byte(r.Body))
	return n > 0, err
}

// Received implements [clientstore.ReceivedStore].
func (s *Store) Received(ctx context.Context, key string, after uint64, limit int) ([]clientstore.Received, error) {
	return collect(ctx, s, func(row scanner) (r clientstore.Received, err error) {
		var sequence int64
		var body []byte
		err = row.Scan(&sequence, &r.EventID, &body)
		r.Sequence, r.Body = uint64(sequence), body
		return r, err
	}, "SELECT sequence, event_id, body FROM received WHERE key = ? AND sequence > ? ORDER BY sequence LIMIT ?", key, int64(after), max(limit, 0))
}

// TakeReceived implements [clientstore.ReceivedStore].
func (s *Store) TakeReceived(ctx context.Context, key string, upTo uint64, saved clientstore.Saved) error {
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM received WHERE key = ? AND sequence <= ?", key, int64(upTo)); err != nil {
			return err
		}
		if saved.Cursor == "" {
			return nil
		}
		return save(ctx, w, key, saved)
	}, nil)
}
