package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Secret is the shared key of one webhook subscription, 24 to 64 bytes. Only [Secret.Text] reveals it:
// formatting and logging give a placeholder, and encoding it as JSON or text is an error. The zero
// Secret means that no secret is set. See SUB-3.
type Secret struct {
	key string // the decoded bytes
}

// newSecretSize is the length of generated secrets in bytes, the output size of SHA-256.
const newSecretSize = 32

// A SecretError reports why a text is not a valid secret, without quoting it. See SUB-3.
type SecretError struct {
	// Reason is a predicate to put after the name of the field: "must be whsec_ followed by …".
	Reason string
}

// Error returns the reason.
func (e *SecretError) Error() string { return "webhook: a secret " + e.Reason }

const wantSecret = "must be whsec_ followed by the standard base64 of 24 to 64 bytes"

// NewSecret returns a random secret.
func NewSecret() Secret {
	b := make([]byte, newSecretSize)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return Secret{string(b)}
}

// ParseSecret parses the text form: whsec_ and base64, padded or not, of 24 to 64 bytes. It also accepts
// the URL-safe alphabet, because some peers use it, but not a mixture of both (SUB-3). Errors are of
// type [*SecretError].
func ParseSecret(text string) (Secret, error) {
	coded, ok := strings.CutPrefix(text, wire.SecretPrefix)
	// The decoder skips line breaks; a secret has none.
	if !ok || strings.ContainsAny(coded, "\r\n") {
		return Secret{}, &SecretError{wantSecret}
	}
	encoding := base64.StdEncoding
	if strings.ContainsAny(coded, "-_") {
		encoding = base64.URLEncoding
	}
	if !strings.HasSuffix(coded, "=") {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	if len(coded) > base64.StdEncoding.EncodedLen(wire.MaxSecret) {
		return Secret{}, &SecretError{fmt.Sprintf("%s, and has a text of %d bytes", wantSecret, len(text))}
	}
	b, err := encoding.DecodeString(coded)
	switch {
	case err != nil:
		return Secret{}, &SecretError{wantSecret}
	case len(b) < wire.MinSecret || len(b) > wire.MaxSecret:
		return Secret{}, &SecretError{fmt.Sprintf("%s, and has %d bytes", wantSecret, len(b))}
	}
	return Secret{string(b)}, nil
}

// Text returns the text form for events/subscribe, in the standard alphabet with padding.
func (s Secret) Text() string {
	return wire.SecretPrefix + base64.StdEncoding.EncodeToString([]byte(s.key))
}

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.key == "" }

// Equal reports whether s and other are the same key, in constant time.
func (s Secret) Equal(other Secret) bool { return hmac.Equal([]byte(s.key), []byte(other.key)) }

const redacted = wire.SecretPrefix + "(hidden)"

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText always returns an error. To store or send a secret, call [Secret.Text] explicitly.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("webhook: Secret does not marshal: use its Text method")
}
