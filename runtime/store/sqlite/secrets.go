package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// The forms in which secrets lie in the file: the first byte of the column.
const (
	formPlain  = 0
	formSealed = 1 // AES-GCM: nonce, then ciphertext, bound to the subscription's id
)

// keyCheck is sealed in the file, so that a wrong key is noticed when the file is opened.
const keyCheck = "mcpe-gen store key"

// seal encodes secrets for the file.
func (s *Store) seal(id string, secrets []store.Secret) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	if s.aead == nil {
		return append([]byte{formPlain}, text...), nil
	}
	return s.encrypt(id, text), nil
}

func (s *Store) encrypt(id string, text []byte) []byte {
	out := make([]byte, 1+s.aead.NonceSize(), 1+s.aead.NonceSize()+len(text)+s.aead.Overhead())
	out[0] = formSealed
	nonce := out[1:]
	rand.Read(nonce) // never fails
	return s.aead.Seal(out, nonce, text, []byte(id))
}

func (s *Store) decrypt(id string, b []byte) ([]byte, error) {
	switch {
	case len(b) > 0 && b[0] == formPlain:
		return b[1:], nil
	case len(b) == 0 || b[0] != formSealed:
		return nil, fmt.Errorf("%w: secrets of %s", ErrCorrupt, id)
	case s.aead == nil:
		return nil, fmt.Errorf("%w: the file was written with one", ErrKey)
	case len(b) < 1+s.aead.NonceSize():
		return nil, fmt.Errorf("%w: secrets of %s", ErrCorrupt, id)
	}
	n := 1 + s.aead.NonceSize()
	text, err := s.aead.Open(nil, b[1:n], b[n:], []byte(id))
	if err != nil {
		return nil, fmt.Errorf("%w: secrets of %s cannot be decrypted", ErrKey, id)
	}
	return text, nil
}

// open decodes what seal made.
func (s *Store) open(id string, b []byte) (secrets []store.Secret, err error) {
	text, err := s.decrypt(id, b)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &secrets); err != nil {
		return nil, fmt.Errorf("%w: secrets of %s: %w", ErrCorrupt, id, err)
	}
	return secrets, nil
}

// checkKey compares the key with the one the file was made with. A file made without a key takes
// one from now on; what it holds already stays as it is until it is written again.
func (s *Store) checkKey(ctx context.Context, conn *sql.Conn) error {
	var sealed []byte
	err := conn.QueryRowContext(ctx, "SELECT sealed FROM key_check").Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.aead == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		_, err = conn.ExecContext(ctx, "INSERT INTO key_check (one, sealed) VALUES (1, ?)", s.encrypt("", []byte(keyCheck)))
		return err
	case err != nil:
		return err
	}
	_, err = s.decrypt("", sealed)
	return err
}
