package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// bodyTimeout is the default of ReceiverOptions.BodyTimeout.
const bodyTimeout = 10 * time.Second

// ReceiverOptions configures a [Receiver]. The zero value is ready to use.
type ReceiverOptions struct {
	// Prefix is the path prefix of all endpoints, with a trailing slash. The default is "/mcp/webhooks/".
	Prefix string
	// MaxBody is the maximum size of a body in bytes. The default and recommended value is [MaxBody].
	MaxBody int64
	// BodyTimeout is the timeout for reading a body. The default is 10 s.
	BodyTimeout time.Duration
	// Tolerance is the maximum difference between a timestamp and the local clock. The default is [DefaultTolerance].
	Tolerance time.Duration
	// Remember is the number of messages that an endpoint remembers for deduplication, and RememberFor is how long it
	// remembers them. A message is identified by its eventId or, for an envelope, by its webhook-id. The defaults are
	// 8,192 messages and one hour, which is longer than any retry schedule of the extension.
	Remember    int
	RememberFor time.Duration
	// Logger logs refused messages with the reason, but without secrets, paths and payloads; nil means slog.Default().
	Logger *slog.Logger
}

// A Receiver is the http.Handler for the callbacks of webhook subscriptions. It serves only the paths of its open
// endpoints and rejects messages that are not signed with the endpoint's secret. Mount it at its prefix behind TLS. It
// is safe for concurrent use. See CLI-5.
//
// It responds with 404 for a path without an open endpoint, 405 for a method other than POST, 415 for content other
// than plain application/json, 413 for a body that is too large, 408 for a body that arrives too slowly, 400 for
// malformed headers or a malformed body, 401 for an invalid signature or timestamp, and 503 if the message cannot be
// handled now and the server should retry. It responds with 2xx only after the message has been handled.
type Receiver struct {
	o ReceiverOptions

	mu        sync.RWMutex
	endpoints map[string]*Endpoint // by path
}

// NewReceiver returns a Receiver. It returns an error if an option is invalid.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	o.Prefix = cmp.Or(o.Prefix, "/mcp/webhooks/")
	if !strings.HasPrefix(o.Prefix, "/") || !strings.HasSuffix(o.Prefix, "/") {
		return nil, errors.New("webhook: the receiver's prefix must begin and end with a slash")
	}
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), wire.MaxBody)
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), bodyTimeout)
	o.Remember = cmp.Or(max(o.Remember, 0), 8192)
	o.RememberFor = cmp.Or(max(o.RememberFor, 0), time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &Receiver{o: o, endpoints: map[string]*Endpoint{}}, nil
}

// EndpointOptions configures an endpoint opened by [Receiver.Open]. Set the fields to restore an endpoint from an
// earlier process. The zero value creates a new endpoint.
type EndpointOptions struct {
	// Path is the full path as returned by [Endpoint.Path]; if empty, a random path is used.
	Path string
	// Ring holds the accepted secrets; if empty, a random secret is used.
	Ring Ring
}

// Open opens an endpoint with a unique path. The endpoint answers challenges immediately, so open it before calling
// events/subscribe. It responds to messages with 503 until [Endpoint.Activate] is called (CLI-5).
func (r *Receiver) Open(o EndpointOptions) (*Endpoint, error) {
	if o.Path == "" {
		o.Path = r.o.Prefix + strings.ToLower(rand.Text())
	}
	if !strings.HasPrefix(o.Path, r.o.Prefix) || len(o.Path) == len(r.o.Prefix) {
		return nil, errors.New("webhook: the endpoint's path is not below the receiver's prefix")
	}
	if len(o.Ring) == 0 {
		o.Ring = NewRing(NewSecret())
	}
	e := &Endpoint{receiver: r, path: o.Path, ring: o.Ring, seen: newMessageSet(r.o.Remember, r.o.RememberFor)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endpoints[o.Path] != nil {
		return nil, errors.New("webhook: another endpoint uses this path")
	}
	r.endpoints[o.Path] = e
	return e, nil
}

// A refusal is an error with the status for a refused request and the reason to log.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

// ServeHTTP handles one request; see [Receiver] for the status codes.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	inbound.Deadline(w, req, r.o.BodyTimeout)
	r.mu.RLock()
	e := r.endpoints[req.URL.Path]
	r.mu.RUnlock()
	if e == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer, err := r.receive(w, req, e)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		e.refused(refused)
		r.o.Logger.WarnContext(req.Context(), "webhook message refused",
			"subscription", e.Subscription(), "status", refused.status, "reason", refused.reason)
		w.WriteHeader(refused.status)
	case answer != nil:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// receive verifies and handles a message. It returns the body of the response, or nil for an empty body.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request, e *Endpoint) ([]byte, error) {
	if !isPlainJSON(req.Header) {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the content is not plain application/json"}
	}
	verifier := Verifier{Secrets: e.secrets(), Tolerance: r.o.Tolerance}
	if !hasValidHeaders(req.Header) {
		return nil, &refusal{http.StatusBadRequest, ErrHeaders.Error()}
	}
	// Check the headers before reading the body, which is needed only for the signature.
	_, err := verifier.Verify(req.Header, nil)
	var body []byte
	var stamp Stamp
	if err == nil || errors.Is(err, ErrSignature) {
		if body, err = r.readBody(w, req); err != nil {
			return nil, err
		}
		stamp, err = verifier.Verify(req.Header, body)
	}
	switch {
	case errors.Is(err, ErrHeaders):
		return nil, &refusal{http.StatusBadRequest, ErrHeaders.Error()}
	case err != nil:
		return nil, &refusal{http.StatusUnauthorized, err.Error()}
	}
	d, err := ParseDelivery(stamp, body)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	d.Subscription = req.Header.Get(wire.HeaderSubscriptionID)
	if d.Type == wire.EnvelopeVerification {
		return e.challengeResponse(d.Envelope.Challenge)
	}
	return nil, e.handOver(req.Context(), d)
}

// Maximum sizes of headers in bytes. The signatures for four secrets and eight keys need about 1.2 KiB.
const (
	maxStamp          = 20 // a 64-bit number
	maxSignatures     = 8 << 10
	maxSubscriptionID = 256
)

// hasValidHeaders reports whether the headers have a valid size and form. It is called before the signature is
// computed. The webhook-id need not be the eventId (D10).
func hasValidHeaders(h http.Header) bool {
	return isMessageID(h.Get(wire.HeaderWebhookID)) && len(h.Get(wire.HeaderWebhookTimestamp)) <= maxStamp &&
		len(h.Get(wire.HeaderWebhookSignature)) <= maxSignatures && len(h.Get(wire.HeaderSubscriptionID)) <= maxSubscriptionID
}

// isPlainJSON reports whether the content is JSON without a Content-Encoding to decode.
func isPlainJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := strings.ToLower(h.Get("Content-Encoding"))
	return err == nil && media == "application/json" && (encoding == "" || encoding == "identity")
}

// readBody reads the body and limits its size. ServeHTTP sets the deadline.
func (r *Receiver) readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "the body is too large"}
	if req.ContentLength > r.o.MaxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.o.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{http.StatusRequestTimeout, "the body came too slowly"}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "the body broke off"}
	}
	inbound.Lift(w)
	return body, nil
}

// maxChallenge is the maximum size of a challenge in bytes.
const maxChallenge = 1024

// challengeResponse returns the response to an authentic challenge (VER-2). Challenges bypass routing and
// deduplication, because the server waits for the response during the subscribe call, before the endpoint is active.
func (e *Endpoint) challengeResponse(challenge string) ([]byte, error) {
	bad := &refusal{http.StatusBadRequest, "the challenge is missing or too long"}
	if challenge == "" || len(challenge) > maxChallenge {
		return nil, bad
	}
	b, err := jsonv2.Marshal(wire.ChallengeAnswer{Challenge: challenge})
	if err != nil {
		return nil, bad
	}
	return b, nil
}

// handOver passes d to the handler, unless the handler has already accepted it.
func (e *Endpoint) handOver(ctx context.Context, d Delivery) error {
	handle, err := e.route(d.Subscription)
	if err != nil {
		return err
	}
	key := d.deduplicationKey()
	first, err := e.seen.tryBegin(ctx, key)
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the same message is still being handed over"}
	}
	if !first {
		e.recordAccepted()
		return nil
	}
	accepted := false
	defer func() { e.seen.end(key, accepted) }() // also when the handler panics
	if err := handle(ctx, d); err != nil {
		e.receiver.o.Logger.ErrorContext(ctx, "webhook message not handed over", "subscription", e.Subscription(), "error", err)
		return &refusal{http.StatusServiceUnavailable, "the application did not take the message"}
	}
	accepted = true
	e.recordAccepted()
	return nil
}
