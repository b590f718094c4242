// Package sealed is the form in which durable stores keep the secrets of subscriptions and
// callbacks: one byte of form, then JSON, which is encrypted with AES-GCM when the store has a key.
// Start with [New].
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrKey says that the key is missing, wrong, or of a bad length.
	ErrKey = errors.New("encryption key does not fit")
	// ErrForm says that something was not written by a Box.
	ErrForm = errors.New("sealed secrets are damaged")
)

// The forms: the first byte.
const (
	formPlain  = 0
	formSealed = 1 // nonce, then ciphertext, bound to the record's id
)

// check is sealed where a store is made, so that a wrong key is noticed when it is opened.
const check = "mcpe-gen store key"

// A Box seals and opens secrets; the zero value has no key.
type Box struct {
	aead cipher.AEAD
}

// New returns a box with the key: 16, 24 or 32 bytes, or none.
func New(key []byte) (Box, error) {
	if len(key) == 0 {
		return Box{}, nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Box{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	aead, err := cipher.NewGCM(block)
	return Box{aead}, err
}

// Keyed tells whether the box has a key.
func (b Box) Keyed() bool { return b.aead != nil }

// Seal encodes the secrets of the record with that id.
func (b Box) Seal(id string, secrets []store.Secret) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	if b.aead == nil {
		return append([]byte{formPlain}, text...), nil
	}
	return b.encrypt(id, text), nil
}

// Open decodes what Seal made for that id.
func (b Box) Open(id string, in []byte) (secrets []store.Secret, err error) {
	text, err := b.decrypt(id, in)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &secrets); err != nil {
		return nil, fmt.Errorf("%w: secrets of %s: %w", ErrForm, id, err)
	}
	return secrets, nil
}

// SealCheck makes what Check compares a later key with.
func (b Box) SealCheck() []byte { return b.encrypt("", []byte(check)) }

// Check reports whether the key is the one that SealCheck was called with.
func (b Box) Check(in []byte) error {
	_, err := b.decrypt("", in)
	return err
}

func (b Box) encrypt(id string, text []byte) []byte {
	out := make([]byte, 1+b.aead.NonceSize(), 1+b.aead.NonceSize()+len(text)+b.aead.Overhead())
	out[0] = formSealed
	nonce := out[1:]
	rand.Read(nonce) // never fails
	return b.aead.Seal(out, nonce, text, []byte(id))
}

func (b Box) decrypt(id string, in []byte) ([]byte, error) {
	switch {
	case len(in) > 0 && in[0] == formPlain:
		return in[1:], nil
	case len(in) == 0 || in[0] != formSealed:
		return nil, fmt.Errorf("%w: secrets of %s", ErrForm, id)
	case b.aead == nil:
		return nil, fmt.Errorf("%w: it was written with one", ErrKey)
	case len(in) < 1+b.aead.NonceSize():
		return nil, fmt.Errorf("%w: secrets of %s", ErrForm, id)
	}
	n := 1 + b.aead.NonceSize()
	text, err := b.aead.Open(nil, in[1:n], in[n:], []byte(id))
	if err != nil {
		return nil, fmt.Errorf("%w: secrets of %s cannot be decrypted", ErrKey, id)
	}
	return text, nil
}
