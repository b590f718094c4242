package webhook

import (
	"cmp"
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

// Errors returned by a [Verifier], for use with errors.Is.
var (
	// ErrHeaders is returned if the signature headers are missing or malformed.
	ErrHeaders = errors.New("webhook: the signature headers are missing or malformed")
	// ErrStale is returned if the timestamp is too far from the current time.
	ErrStale = errors.New("webhook: the timestamp is too old or too new")
	// ErrSignature is returned if the message is not signed with an accepted secret or key.
	ErrSignature = errors.New("webhook: no signature matches")
)

// DefaultTolerance is the default maximum difference between a timestamp and the receiver's clock. See CLI-5.
const DefaultTolerance = 5 * time.Minute

// maxEd25519 is the maximum number of v1a signatures checked per message, because each check is expensive. For v1, only
// one signature per secret is computed.
const maxEd25519 = 8

// A Verifier verifies that a message's sender has a secret, a private key, or both. It accepts the same v1 signatures
// as the Standard Webhooks libraries.
type Verifier struct {
	// Secrets lists the accepted secrets. A message must have a v1 signature made with one of them. If Secrets is
	// empty, v1 signatures are ignored.
	Secrets []Secret
	// Keys lists the accepted keys of the server. A message must have a v1a signature made with one of them. If Keys is
	// empty, v1a signatures are ignored. If both lists are empty, every message is refused.
	Keys []PublicKey
	// Tolerance is used instead of [DefaultTolerance] if it is positive.
	Tolerance time.Duration
}

// A Stamp holds the id and the timestamp from the headers of a verified message.
type Stamp struct {
	// ID is the webhook-id.
	ID string
	// Time is the webhook-timestamp, which has a resolution of one second.
	Time time.Time
}

// Verify verifies the headers and the body of a message. The body must be passed exactly as received. The error is
// [ErrHeaders], [ErrStale] or [ErrSignature]. See CLI-5.
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
	tolerance := cmp.Or(max(v.Tolerance, 0), DefaultTolerance)
	if at.Before(now.Add(-tolerance)) || at.After(now.Add(tolerance)) {
		return Stamp{}, ErrStale
	}
	// The signature covers the parsed number, so +1 is equivalent to 1.
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
		for signature := range signaturesOf(signatures, wire.SignatureHMAC) {
			if hmac.Equal([]byte(signature), want) {
				matched = true
			}
		}
	}
	return matched
}

func (v Verifier) matchKey(id, stamp, signatures string, body []byte) bool {
	message := signedContent(id, stamp, body)
	tried := 0
	for text := range signaturesOf(signatures, wire.SignatureEd25519) {
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

// signaturesOf returns an iterator over the signatures with the given scheme. Like the Standard Webhooks libraries, it
// splits entries at single spaces and ignores text after a second comma.
func signaturesOf(signatures, scheme string) func(yield func(string) bool) {
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
