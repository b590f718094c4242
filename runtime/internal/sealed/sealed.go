// Package sealed encodes the secrets of subscriptions and callbacks for the durable stores: one byte of form, then JSON,
// which is encrypted with AES-GCM when the store has a key. Start with [New].
package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrKey says that the key is missing, wrong, or of a bad length.
	ErrKey = errors.New("wrong or missing encryption key")
	// ErrForm says that something was not written by a Box, or not by one with a key where it should be.
	ErrForm = errors.New("sealed secrets are damaged")
)

// The forms: the first byte.
const (
	formPlain = 0
	// formSealed is the key's name, nonce, then ciphertext, bound to what stands before the nonce and to the record's id.
	formSealed = 1
)

// check is sealed where a store is made, so that a wrong key is noticed when it is opened.
const check = "mcpe-gen store key"

// PrefixSize is the length of [Box.Prefix].
const PrefixSize = 5

// A key is one with its name, which tells keys apart and nothing about them.
type key struct {
	aead   cipher.AEAD
	prefix []byte // form, then the first bytes of a hash of the key
}

func newKey(text []byte) (key, error) {
	block, err := aes.NewCipher(text)
	if err != nil {
		return key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	aead, err := cipher.NewGCM(block)
	name := sha256.Sum256(append([]byte("mcpe-gen key name "), text...))
	return key{aead, append([]byte{formSealed}, name[:PrefixSize-1]...)}, err
}

// A Box seals and opens secrets; the zero value has no key.
type Box struct {
	keys []key // the first one seals
}

// New returns a box with the key: 16, 24 or 32 bytes, or none. What old keys have sealed it opens.
func New(text []byte, old ...[]byte) (b Box, err error) {
	if len(text) == 0 && len(old) == 0 {
		return Box{}, nil
	}
	for _, text := range append([][]byte{text}, old...) {
		k, err := newKey(text)
		if err != nil {
			return Box{}, err
		}
		b.keys = append(b.keys, k)
	}
	return b, nil
}

// Keyed tells whether the box has a key.
func (b Box) Keyed() bool { return len(b.keys) > 0 }

// Prefix begins everything that the box seals; it is nil without a key.
func (b Box) Prefix() []byte {
	if !b.Keyed() {
		return nil
	}
	return b.keys[0].prefix
}

// CallbackID is the id of a client's callback for [Box.Seal], in a space that no subscription's id is in.
func CallbackID(key string) string { return "callback " + key }

// Seal encodes the secrets of the record with that id.
func (b Box) Seal(id string, secrets []store.Secret) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	if !b.Keyed() {
		return append([]byte{formPlain}, text...), nil
	}
	return b.encrypt(id, text), nil
}

// Open decodes what Seal made for that id. A box with a key takes nothing that was made without one.
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

// Renew returns what Seal made for that id as the box seals it now, nil where that is how it is. With plain it takes
// what was made without a key as well, which is for a store that takes its first key.
func (b Box) Renew(id string, in []byte, plain bool) ([]byte, error) {
	if bytes.HasPrefix(in, b.Prefix()) {
		return nil, nil
	}
	if plain && len(in) > 0 && in[0] == formPlain {
		return b.encrypt(id, in[1:]), nil
	}
	text, err := b.decrypt(id, in)
	if err != nil {
		return nil, err
	}
	return b.encrypt(id, text), nil
}

// SealCheck makes what Check compares a later key with.
func (b Box) SealCheck() []byte { return b.encrypt("", []byte(check)) }

// Check returns an error unless SealCheck was called with one of the box's keys.
func (b Box) Check(in []byte) error {
	text, err := b.decrypt("", in)
	if err == nil && string(text) != check {
		return fmt.Errorf("%w: the store's check value is malformed", ErrForm)
	}
	return err
}

func (b Box) encrypt(id string, text []byte) []byte {
	k := b.keys[0]
	out := make([]byte, PrefixSize+k.aead.NonceSize(), PrefixSize+k.aead.NonceSize()+len(text)+k.aead.Overhead())
	copy(out, k.prefix)
	nonce := out[PrefixSize:]
	rand.Read(nonce) // never fails
	return k.aead.Seal(out, nonce, text, append(bytes.Clone(k.prefix), id...))
}

func (b Box) decrypt(id string, in []byte) ([]byte, error) {
	switch {
	case len(in) == 0 || in[0] > formSealed:
		return nil, fmt.Errorf("%w: secrets of %s", ErrForm, id)
	case in[0] == formPlain && !b.Keyed():
		return in[1:], nil
	case in[0] == formPlain:
		return nil, fmt.Errorf("%w: secrets of %s were written without the store's key", ErrForm, id)
	case !b.Keyed():
		return nil, fmt.Errorf("%w: the store was written with a key", ErrKey)
	}
	for _, k := range b.keys {
		if !bytes.HasPrefix(in, k.prefix) {
			continue
		}
		n := PrefixSize + k.aead.NonceSize()
		if len(in) < n {
			return nil, fmt.Errorf("%w: secrets of %s", ErrForm, id)
		}
		if text, err := k.aead.Open(nil, in[PrefixSize:n], in[n:], append(bytes.Clone(k.prefix), id...)); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("%w: secrets of %s cannot be decrypted", ErrKey, id)
}
