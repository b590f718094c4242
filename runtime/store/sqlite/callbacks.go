package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Callback implements [clientstore.CallbackStore].
func (s *Store) Callback(ctx context.Context, key string) (cb clientstore.Callback, ok bool, err error) {
	var secrets []byte
	var record string
	if ok, err := s.queryRow(ctx, "SELECT secrets, record FROM callbacks WHERE key = ?", []any{key}, &secrets, &record); !ok {
		return cb, false, err
	}
	if err := json.Unmarshal([]byte(record), &cb); err != nil {
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
		return err
	}
	cb.Secrets = nil
	record, err := json.Marshal(cb)
	if err != nil {
		return err
	}
	_, err = s.execChange(ctx, "INSERT OR REPLACE INTO callbacks (key, secrets, record) VALUES (?, ?, ?)", key, secrets, string(record))
	return err
}

// DeleteCallback implements [clientstore.CallbackStore].
func (s *Store) DeleteCallback(ctx context.Context, key string) error {
	_, err := s.execChange(ctx, "DELETE FROM callbacks WHERE key = ?", key)
	return err
}
