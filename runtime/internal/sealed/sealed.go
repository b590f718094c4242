// Package sealed encodes the secrets of subscriptions and callbacks for the durable stores. The encoding consists of a
// format byte and JSON, which is encrypted with AES-GCM if the store has a key. Start with [New].
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
	// ErrKey is returned if the key is missing, is wrong or has an invalid length.
	ErrKey = errors.New("wrong or missing encryption key")
	// ErrForm is returned for data that was not written by a Box, or that lacks the required encryption.
	ErrForm = errors.New("sealed secrets are damaged")
)

// Values of the format byte.
const (
	formPlain = 0
	// formSealed is followed by the key's name, the nonce and the ciphertext. The ciphertext is bound to the bytes
	// before the nonce and to the record's id.
	formSealed = 1
)

// checkText is sealed when a store is created, so a wrong key is detected when the store is opened.
const checkText = "mcpe-gen store key"

// PrefixSize is the length of [Box.Prefix].
const PrefixSize = 5

// A key is an encryption key with a name. The name identifies the key without revealing it.
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

// A Box seals and opens secrets. The zero value is a Box without a key.
type Box struct {
	keys []key // the first key seals
}

// New returns a Box that seals with the given key of 16, 24 or 32 bytes. An empty key means no key. The Box can also
// open secrets that were sealed with the old keys.
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

// Keyed reports whether the Box has a key.
func (b Box) Keyed() bool { return len(b.keys) > 0 }

// Prefix returns the first bytes of all data sealed by the Box, or nil without a key.
func (b Box) Prefix() []byte {
	if !b.Keyed() {
		return nil
	}
	return b.keys[0].prefix
}

// Readable returns the prefixes of data that the Box can open, unless the data are damaged. They have the same length.
func (b Box) Readable() (prefixes [][]byte) {
	if !b.Keyed() {
		return [][]byte{{formPlain}}
	}
	for _, k := range b.keys {
		prefixes = append(prefixes, k.prefix)
	}
	return prefixes
}

// CallbackID returns the id of a client's callback for [Box.Seal]. It differs from all subscription ids.
func CallbackID(key string) string { return "callback " + key }

// Seal encodes the secrets of the record with the id.
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

// Open decodes the output of Seal for the same id. A Box with a key rejects secrets that were sealed without a key.
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

// Renew re-encrypts the output of Seal for the same id with the current key. It returns nil if the output already uses
// this key. If plain is set, it also accepts unencrypted secrets. This is intended for a store that is given its first
// key.
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

// SealCheck returns a value that Check can later use to verify a key.
func (b Box) SealCheck() []byte { return b.encrypt("", []byte(checkText)) }

// Check returns an error unless the value was created by SealCheck with one of the Box's keys.
func (b Box) Check(in []byte) error {
	text, err := b.decrypt("", in)
	if err == nil && string(text) != checkText {
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
