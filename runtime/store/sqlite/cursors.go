package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Load implements [clientstore.CursorStore].
func (s *Store) Load(ctx context.Context, key string) (saved clientstore.Saved, ok bool, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return saved, false, err
	}
	var ids string
	err = db.QueryRowContext(ctx, "SELECT cursor, event_ids FROM cursors WHERE key = ?", key).Scan(&saved.Cursor, &ids)
	if errors.Is(err, sql.ErrNoRows) {
		return clientstore.Saved{}, false, nil
	}
	if err != nil {
		return clientstore.Saved{}, false, classify(err)
	}
	if err := json.Unmarshal([]byte(ids), &saved.EventIDs); err != nil {
		return clientstore.Saved{}, false, fmt.Errorf("%w: cursor %q: %w", ErrCorrupt, key, err)
	}
	return saved, true, nil
}

// Save implements [clientstore.CursorStore].
func (s *Store) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	return s.writer.do(ctx, func(ctx context.Context, w *session) error { return save(ctx, w, key, saved) }, nil)
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
	return s.writer.do(ctx, func(ctx context.Context, w *session) error {
		_, err := w.exec(ctx, "DELETE FROM cursors WHERE key = ?", key)
		return err
	}, nil)
}

// PutReceived implements [clientstore.ReceivedStore].
func (s *Store) PutReceived(ctx context.Context, key string, r clientstore.Received) (fresh bool, err error) {
	err = s.writer.do(ctx, func(ctx context.Context, w *session) error {
		res, err := w.exec(ctx, "INSERT INTO received (key, event_id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", key, r.EventID, []byte(r.Body))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		fresh = n > 0
		return err
	}, nil)
	return fresh && err == nil, err
}

// Received implements [clientstore.ReceivedStore].
func (s *Store) Received(ctx context.Context, key string, after uint64, limit int) (all []clientstore.Received, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT sequence, event_id, body FROM received WHERE key = ? AND sequence > ? ORDER BY sequence LIMIT ?", key, int64(after), max(limit, 0))
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r clientstore.Received
		var sequence int64
		var body []byte
		if err := rows.Scan(&sequence, &r.EventID, &body); err != nil {
			return nil, classify(err)
		}
		r.Sequence, r.Body = uint64(sequence), body
		all = append(all, r)
	}
	return all, classify(rows.Err())
}

// TakeReceived implements [clientstore.ReceivedStore].
func (s *Store) TakeReceived(ctx context.Context, key string, upTo uint64, saved clientstore.Saved) error {
	return s.writer.do(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM received WHERE key = ? AND sequence <= ?", key, int64(upTo)); err != nil {
			return err
		}
		if saved.Cursor == "" {
			return nil
		}
		return save(ctx, w, key, saved)
	}, nil)
}
