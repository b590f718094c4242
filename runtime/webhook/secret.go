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

// A Secret is the shared key of a webhook subscription, with 24 to 64 bytes. Only [Secret.Text] reveals it. Formatting
// and logging a Secret produce a placeholder, and encoding it as JSON or text returns an error. The zero Secret means
// that no secret is set. See SUB-3.
type Secret struct {
	key string // the decoded bytes
}

// newSecretSize is the length of generated secrets in bytes. It is the output size of SHA-256.
const newSecretSize = 32

// A SecretError is the reason a text is not a valid secret. It does not quote the text. See SUB-3.
type SecretError struct {
	// Reason is a phrase that follows the name of the field, such as "must be whsec_ followed by …".
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

// ParseSecret parses an encoded secret, which is whsec_ followed by the base64 encoding of 24 to 64 bytes. The padding
// is optional. ParseSecret also accepts the URL-safe alphabet, which some peers use, but not a mixture of both
// alphabets (SUB-3). Errors are of type [*SecretError].
func ParseSecret(text string) (Secret, error) {
	coded, ok := strings.CutPrefix(text, wire.SecretPrefix)
	// The decoder ignores line breaks, which a secret must not contain.
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

// Text returns the secret as encoded for events/subscribe, in the standard alphabet with padding.
func (s Secret) Text() string {
	return wire.SecretPrefix + base64.StdEncoding.EncodeToString([]byte(s.key))
}

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.key == "" }

// Equal reports whether s and other are equal. The comparison takes constant time.
func (s Secret) Equal(other Secret) bool { return hmac.Equal([]byte(s.key), []byte(other.key)) }

const redacted = wire.SecretPrefix + "(hidden)"

// Format writes a placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText always returns an error. To store or send a secret, call [Secret.Text].
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("webhook: Secret does not marshal: use its Text method")
}
