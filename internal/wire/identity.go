package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// SubscriptionID returns the ID of the subscription with a key: "sub_" and the first 128 bits of a SHA-256 in hex
// (SUB-4, SRV-2). It depends only on the key, so it is the same after a refresh, after a restart and on another
// replica.
//
// Each part of the key is preceded by its length, so different keys have different serializations. The URL is hashed
// byte for byte. The URL is empty for poll and push. canonicalArgs is the result of [Canonical].
func SubscriptionID(mode, principal, url, name string, canonicalArgs []byte) string {
	b := append(make([]byte, 0, 256), "mcpe-gen subscription 1"...)
	for _, part := range []string{mode, principal, url, name, string(canonicalArgs)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return "sub_" + hex.EncodeToString(sum[:16])
}

// Fingerprint identifies the two published schemas of a descriptor (EVOL-4). It is the first 128 bits of SHA-256 over
// the RFC 8785 form of {"inputSchema":…,"payloadSchema":…}, in 32 hex digits. An empty schema counts as null. Unlike
// arguments, schemas can contain integers beyond MaxInteger, such as a maximum of 2^63−1. RFC 8785 rounds them to
// doubles.
func Fingerprint(input, payload json.RawMessage) (string, error) {
	var canonical [2][]byte
	for i, schema := range []json.RawMessage{input, payload} {
		if len(schema) == 0 {
			schema = json.RawMessage("null")
		}
		var err error
		if canonical[i], err = CanonicalSchema(schema); err != nil {
			return "", fmt.Errorf("wire: fingerprint: %s: %w", [...]string{"inputSchema", "payloadSchema"}[i], err)
		}
	}
	return CanonicalFingerprint(canonical[0], canonical[1]), nil
}

// CanonicalSchema returns the RFC 8785 form of a schema, as used by [Fingerprint].
func CanonicalSchema(schema json.RawMessage) ([]byte, error) {
	if err := checkStrict(schema, false); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(schema).Clone()
	if err := canonical.Canonicalize(); err != nil {
		return nil, err
	}
	return canonical, nil
}

// CanonicalFingerprint is like [Fingerprint] for two results of [CanonicalSchema].
func CanonicalFingerprint(input, payload []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(`{"inputSchema":`), input, []byte(`,"payloadSchema":`), payload, []byte("}")} {
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// nameCharacters are the characters of event names.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// NameForm is the remedy for a name that is not allowed.
const NameForm = "use 1 to 128 ASCII letters and digits, '_', '.' and '-'"

// ErrEventName is the error returned by CheckEventName.
var ErrEventName = errors.New("the event name is not allowed: " + NameForm)

// CheckEventID returns events.ErrEventID unless id is a valid eventId. An eventId is sent in an HTTP header, so it must
// be visible ASCII without spaces and have at most MaxEventID bytes (OCC-2).
func CheckEventID(id string) error {
	if len(id) == 0 || len(id) > MaxEventID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return events.ErrEventID
	}
	return nil
}

// CheckEventName returns ErrEventName unless name is a valid event name.
func CheckEventName(name string) error {
	if len(name) == 0 || len(name) > MaxEventName || strings.Trim(name, nameCharacters) != "" {
		return ErrEventName
	}
	return nil
}
