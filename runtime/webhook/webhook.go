// Package webhook implements both sides of webhook delivery. It provides secrets, signatures as specified by Standard
// Webhooks, request bodies, and a handler for receivers.
//
// A server has a [Ring] of secrets for each subscription, and an [Identity] if it also signs with its own key. A
// [Signer] uses both to create requests. [Occurrence.Body], [Gap], [Terminated] and [Verification] create the request
// bodies. A receiver in Go mounts a [Receiver] and opens an [Endpoint] for each subscription before it subscribes. A
// receiver with a custom handler needs only a [Verifier]. Either side can be replaced by any implementation of Standard
// Webhooks.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Message is an occurrence or a control envelope to post to a callback.
type Message struct {
	// ID is the webhook-id, which must be the same for all attempts. It is an occurrence's eventId, or the result of
	// [NewMessageID] for an envelope. See HOOK-2, HOOK-7.
	ID string
	// Subscription is the subscription's id.
	Subscription string
	// Body is signed and sent unchanged. See HOOK-1.
	Body []byte
}

// A Signer signs the messages of one subscription.
type Signer struct {
	// Ring holds the subscription's secrets.
	Ring Ring
	// Identity adds signatures made with the server's own keys; nil adds none. See HOOK-10.
	Identity *Identity
}

// errNoSecret is returned if the ring has no secret that is active at the time of signing.
var errNoSecret = errors.New("webhook: no secret is active")

// NewRequest returns a POST request for one attempt to deliver m. The request's timestamp is the current time, and its
// signatures are made with every active secret. Create a new request for each attempt (HOOK-3). See HOOK-2.
func (s Signer) NewRequest(ctx context.Context, url string, m Message) (*http.Request, error) {
	return s.NewRequestAt(ctx, url, m, time.Now())
}

// NewRequestAt is like [Signer.NewRequest], but uses the given time. It is for processes that do not use their own
// clock.
func (s Signer) NewRequestAt(ctx context.Context, url string, m Message, at time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
	if err != nil {
		return nil, errors.New("webhook: the callback URL is malformed")
	}
	if err := s.Sign(req.Header, m, at); err != nil {
		return nil, err
	}
	return req, nil
}

// Sign sets the headers for m, signed at the given time. The headers are Content-Type, webhook-id, webhook-timestamp,
// webhook-signature and X-MCP-Subscription-Id. The signature of the newest secret is first, and v1a signatures follow
// the v1 signatures. See HOOK-2.
func (s Signer) Sign(h http.Header, m Message, at time.Time) error {
	if !isMessageID(m.ID) {
		return fmt.Errorf("webhook: message id %q cannot be a header", m.ID)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, k := range s.Ring {
		if k.activeAt(at) {
			signatures = append(signatures, wire.SignatureHMAC+","+k.Secret.sign(m.ID, stamp, m.Body))
		}
	}
	if len(signatures) == 0 {
		return errNoSecret
	}
	if s.Identity != nil {
		signatures = append(signatures, s.Identity.sign(at, signedContent(m.ID, stamp, m.Body))...)
	}
	values := []string{"application/json", m.ID, stamp, strings.Join(signatures, " "), m.Subscription}
	for i, name := range headerNames {
		if values[i] != "" {
			h[name] = values[i : i+1 : i+1]
		}
	}
	return nil
}

// headerNames contains the canonical names of the headers that Sign sets.
var headerNames = [...]string{"Content-Type", http.CanonicalHeaderKey(wire.HeaderWebhookID), http.CanonicalHeaderKey(wire.HeaderWebhookTimestamp),
	http.CanonicalHeaderKey(wire.HeaderWebhookSignature), http.CanonicalHeaderKey(wire.HeaderSubscriptionID)}

// NewMessageID returns a new webhook-id for a control envelope of the given type: msg_<type>_<random>.
// See HOOK-7, VER-2.
func NewMessageID(envelope string) string {
	return wire.MessagePrefix + envelope + "_" + rand.Text()
}

// sign returns the base64-encoded HMAC of the signed content in Standard Webhooks.
func (s Secret) sign(id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(s.key))
	mac.Write(signedContent(id, stamp, nil))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signedContent returns the signed content as a single slice, which ed25519 requires.
func signedContent(id, stamp string, body []byte) []byte {
	b := make([]byte, 0, len(id)+len(stamp)+len(body)+2)
	b = append(b, id...)
	b = append(b, '.')
	b = append(b, stamp...)
	b = append(b, '.')
	return append(b, body...)
}

// isMessageID reports whether id is a valid webhook-id (OCC-2).
func isMessageID(id string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	return id != "" && len(id) <= wire.MaxEventID && !strings.ContainsFunc(id, hidden)
}
