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

// A Secret is the shared key of one webhook subscription, 24 to 64 bytes. It shows itself to
// nobody but the caller of [Secret.Text]: formatting and logging it give a placeholder, and
// encoding it as JSON or text is an error. The zero Secret is no secret. See SUB-3.
type Secret struct {
	key string // the decoded bytes
}

// newSecretSize is the length of generated secrets: what SHA-256 can make use of.
const newSecretSize = 32

// A SecretError says why a text is no secret, without repeating it. See SUB-3.
type SecretError struct {
	// Reason reads after the name of the field: "must be whsec_ followed by …".
	Reason string
}

// Error gives the reason.
func (e *SecretError) Error() string { return "webhook: a secret " + e.Reason }

const wantSecret = "must be whsec_ followed by the standard base64 of 24 to 64 bytes"

// NewSecret makes a random secret.
func NewSecret() Secret {
	b := make([]byte, newSecretSize)
	_, _ = rand.Read(b) // never fails: package crypto/rand
	return Secret{string(b)}
}

// ParseSecret reads the text form: whsec_ and base64, padded or not, of 24 to 64 bytes. The URL-safe
// alphabet is read too, because peers write it; a text that mixes both is refused (SUB-3). Errors are of
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

// Text is the text form in the standard alphabet with padding, as events/subscribe carries it.
func (s Secret) Text() string {
	return wire.SecretPrefix + base64.StdEncoding.EncodeToString([]byte(s.key))
}

// IsZero reports whether s is no secret.
func (s Secret) IsZero() bool { return s.key == "" }

// Equal reports whether both are the same key, in constant time.
func (s Secret) Equal(other Secret) bool { return hmac.Equal([]byte(s.key), []byte(other.key)) }

const redacted = wire.SecretPrefix + "(hidden)"

// Format writes a placeholder under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText refuses: whoever stores or sends a secret calls [Secret.Text] and means it.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("webhook: Secret does not marshal: use its Text method")
}
