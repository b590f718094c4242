package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Load implements [clientstore.CursorStore].
func (s *Store) Load(ctx context.Context, key string) (saved clientstore.Saved, ok bool, err error) {
	var cursor, ids []byte
	if ok, err := s.queryRow(ctx, `SELECT cursor, event_ids FROM @.cursors WHERE key = $1`, []any{[]byte(key)}, &cursor, &ids); !ok {
		return saved, false, err
	}
	if err := json.Unmarshal(ids, &saved.EventIDs); err != nil {
		return clientstore.Saved{}, false, fmt.Errorf("%w: cursor %q: %w", ErrCorrupt, key, err)
	}
	saved.Cursor = string(cursor)
	return saved, true, nil
}

// Save implements [clientstore.CursorStore].
func (s *Store) Save(ctx context.Context, key string, saved clientstore.Saved) error {
	ids, err := json.Marshal(saved.EventIDs)
	if err != nil {
		return err
	}
	return s.write(ctx, func(b *pgx.Batch) { s.save(b, key, saved.Cursor, ids) })
}

func (s *Store) save(b *pgx.Batch, key, cursor string, ids []byte) {
	b.Queue(s.qualify(`INSERT INTO @.cursors (key, cursor, event_ids) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET cursor = excluded.cursor, event_ids = excluded.event_ids`), []byte(key), []byte(cursor), ids)
}

// Delete implements [clientstore.CursorStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.write(ctx, func(b *pgx.Batch) { b.Queue(s.qualify(`DELETE FROM @.cursors WHERE key = $1`), []byte(key)) })
}

// PutReceived implements [clientstore.ReceivedStore]. Only one process at a time can store bodies for a key.
func (s *Store) PutReceived(ctx context.Context, key string, r clientstore.Received) (fresh bool, err error) {
	return s.execChange(ctx, `INSERT INTO @.received (key, event_id, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		[]byte(key), []byte(r.EventID), scalar.Bytes(r.Body))
}

// Received implements [clientstore.ReceivedStore].
func (s *Store) Received(ctx context.Context, key string, after uint64, limit int) ([]clientstore.Received, error) {
	return collect(ctx, s, func(row pgx.CollectableRow) (clientstore.Received, error) {
		var sequence int64
		var id, body []byte
		err := row.Scan(&sequence, &id, &body)
		return clientstore.Received{Sequence: uint64(sequence), EventID: string(id), Body: body}, err
	}, `SELECT sequence, event_id, body FROM @.received WHERE key = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`,
		[]byte(key), int64(min(after, 1<<63-1)), int64(max(limit, 0)))
}

// TakeReceived implements [clientstore.ReceivedStore].
func (s *Store) TakeReceived(ctx context.Context, key string, upTo uint64, saved clientstore.Saved) error {
	ids, err := json.Marshal(saved.EventIDs)
	if err != nil {
		return err
	}
	return s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.qualify(`DELETE FROM @.received WHERE key = $1 AND sequence <= $2`), []byte(key), int64(min(upTo, 1<<63-1)))
		if saved.Cursor != "" {
			s.save(b, key, saved.Cursor, ids)
		}
	})
}

// Callback implements [clientstore.CallbackStore].
func (s *Store) Callback(ctx context.Context, key string) (cb clientstore.Callback, ok bool, err error) {
	var secrets, record []byte
	if ok, err := s.queryRow(ctx, `SELECT secrets, record FROM @.callbacks WHERE key = $1`, []any{[]byte(key)}, &secrets, &record); !ok {
		return cb, false, err
	}
	if err := json.Unmarshal(record, &cb); err != nil {
		return clientstore.Callback{}, false, fmt.Errorf("%w: callback %q: %w", ErrCorrupt, key, err)
	}
	if cb.Secrets, err = s.box.Open(sealed.CallbackID(key), secrets); err != nil {
		return clientstore.Callback{}, false, classify(err)
	}
	return cb, true, nil
}

// PutCallback implements [clientstore.CallbackStore]. It encrypts the secrets if the store has a key.
func (s *Store) PutCallback(ctx context.Context, key string, cb clientstore.Callback) error {
	secrets, err := s.box.Seal(sealed.CallbackID(key), cb.Secrets)
	if err != nil {
		return classify(err)
	}
	cb.Secrets = nil
	record, err := json.Marshal(cb)
	if err != nil {
		return err
	}
	return s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.qualify(`INSERT INTO @.callbacks (key, secrets, record) VALUES ($1, $2, $3)
			ON CONFLICT (key) DO UPDATE SET secrets = excluded.secrets, record = excluded.record`), []byte(key), secrets, record)
	})
}

// DeleteCallback implements [clientstore.CallbackStore].
func (s *Store) DeleteCallback(ctx context.Context, key string) error {
	return s.write(ctx, func(b *pgx.Batch) { b.Queue(s.qualify(`DELETE FROM @.callbacks WHERE key = $1`), []byte(key)) })
}
