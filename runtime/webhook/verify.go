package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Errors of a [Verifier]; compare with errors.Is.
var (
	// ErrHeaders reports missing or malformed signature headers.
	ErrHeaders = errors.New("webhook: the signature headers are missing or malformed")
	// ErrStale reports a timestamp too far from the current time.
	ErrStale = errors.New("webhook: the timestamp is too old or too new")
	// ErrSignature reports a message that is not signed by an accepted secret or key.
	ErrSignature = errors.New("webhook: no signature matches")
)

// DefaultTolerance is the largest accepted difference between a timestamp and the receiver's clock.
// See CLI-5.
const DefaultTolerance = 5 * time.Minute

// maxEd25519 bounds the v1a signatures that are tried for one message, because each costs a
// verification. For v1, one signature per secret is computed and compared.
const maxEd25519 = 8

// A Verifier checks that the sender of a message knows a secret, holds a private key, or both. It
// accepts the same v1 signatures as the Standard Webhooks libraries.
type Verifier struct {
	// Secrets are the accepted secrets; one of them must have made a v1 signature. Without secrets,
	// v1 signatures are ignored.
	Secrets []Secret
	// Keys are the accepted keys of the server; one of them must have made a v1a signature.
	// Without keys, v1a signatures are ignored. With neither, every message is refused.
	Keys []PublicKey
	// Tolerance replaces DefaultTolerance if positive.
	Tolerance time.Duration
}

// A Stamp holds the id and time from the headers of a verified message.
type Stamp struct {
	// ID is the webhook-id.
	ID string
	// Time is the webhook-timestamp, in whole seconds.
	Time time.Time
}

// Verify checks the headers and the body of a message. The body must be the bytes as received. It
// returns [ErrHeaders], [ErrStale] or [ErrSignature]. See CLI-5.
func (v Verifier) Verify(h http.Header, body []byte) (Stamp, error) {
	return v.verify(h, body, time.Now())
}

func (v Verifier) verify(h http.Header, body []byte, now time.Time) (Stamp, error) {
	id, stamp, signatures := h.Get(wire.HeaderWebhookID), h.Get(wire.HeaderWebhookTimestamp), h.Get(wire.HeaderWebhookSignature)
	if id == "" || stamp == "" || signatures == "" {
		return Stamp{}, ErrHeaders
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return Stamp{}, ErrHeaders
	}
	at := time.Unix(seconds, 0)
	tolerance := v.Tolerance
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if at.Before(now.Add(-tolerance)) || at.After(now.Add(tolerance)) {
		return Stamp{}, ErrStale
	}
	// The signature covers the number, not its spelling: +1 is 1.
	stamp = strconv.FormatInt(seconds, 10)
	if len(v.Secrets) == 0 && len(v.Keys) == 0 ||
		len(v.Secrets) > 0 && !v.matchSecret(id, stamp, signatures, body) ||
		len(v.Keys) > 0 && !v.matchKey(id, stamp, signatures, body) {
		return Stamp{}, ErrSignature
	}
	return Stamp{ID: id, Time: at}, nil
}

func (v Verifier) matchSecret(id, stamp, signatures string, body []byte) bool {
	matched := false
	for _, secret := range v.Secrets {
		if secret.IsZero() {
			continue
		}
		want := []byte(secret.sign(id, stamp, body))
		for signature := range byScheme(signatures, wire.SignatureHMAC) {
			if hmac.Equal([]byte(signature), want) {
				matched = true
			}
		}
	}
	return matched
}

func (v Verifier) matchKey(id, stamp, signatures string, body []byte) bool {
	message := content(id, stamp, body)
	tried := 0
	for text := range byScheme(signatures, wire.SignatureEd25519) {
		signature, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(signature) != ed25519.SignatureSize {
			continue
		}
		if tried++; tried > maxEd25519 {
			return false
		}
		for _, k := range v.Keys {
			if len(k.Key) == ed25519.PublicKeySize && ed25519.Verify(k.Key, message, signature) {
				return true
			}
		}
	}
	return false
}

// byScheme yields the signatures of one scheme. Like the Standard Webhooks libraries, it splits
// entries at single spaces and ignores any text after a second comma.
func byScheme(signatures, scheme string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for entry := range strings.SplitSeq(signatures, " ") {
			found, rest, ok := strings.Cut(entry, ",")
			if !ok || found != scheme {
				continue
			}
			signature, _, _ := strings.Cut(rest, ",")
			if !yield(signature) {
				return
			}
		}
	}
}
