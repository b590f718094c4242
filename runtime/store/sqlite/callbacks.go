package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Callback implements [clientstore.CallbackStore].
func (s *Store) Callback(ctx context.Context, key string) (cb clientstore.Callback, ok bool, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return cb, false, err
	}
	var secrets []byte
	var record string
	err = db.QueryRowContext(ctx, "SELECT secrets, record FROM callbacks WHERE key = ?", key).Scan(&secrets, &record)
	if errors.Is(err, sql.ErrNoRows) {
		return cb, false, nil
	}
	if err != nil {
		return cb, false, classify(err)
	}
	if err := json.Unmarshal([]byte(record), &cb); err != nil {
		return clientstore.Callback{}, false, fmt.Errorf("%w: callback %q: %w", ErrCorrupt, key, err)
	}
	if cb.Secrets, err = s.box.Open(sealed.CallbackID(key), secrets); err != nil {
		return clientstore.Callback{}, false, classify(err)
	}
	return cb, true, nil
}

// PutCallback implements [clientstore.CallbackStore]; the secrets are encrypted when the store has a key.
func (s *Store) PutCallback(ctx context.Context, key string, cb clientstore.Callback) error {
	secrets, err := s.box.Seal(sealed.CallbackID(key), cb.Secrets)
	if err != nil {
		return err
	}
	cb.Secrets = nil
	record, err := json.Marshal(cb)
	if err != nil {
		return err
	}
	return s.writer.do(ctx, func(ctx context.Context, w *session) error {
		_, err := w.exec(ctx, "INSERT OR REPLACE INTO callbacks (key, secrets, record) VALUES (?, ?, ?)", key, secrets, string(record))
		return err
	}, nil)
}

// DeleteCallback implements [clientstore.CallbackStore].
func (s *Store) DeleteCallback(ctx context.Context, key string) error {
	return s.writer.do(ctx, func(ctx context.Context, w *session) error {
		_, err := w.exec(ctx, "DELETE FROM callbacks WHERE key = ?", key)
		return err
	}, nil)
}
