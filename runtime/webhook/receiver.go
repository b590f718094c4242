package webhook

import (
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

// bodyTimeout is how long bodies have to arrive.
const bodyTimeout = 10 * time.Second

// ReceiverOptions configure a [Receiver]; the zero value works.
type ReceiverOptions struct {
	// Prefix begins the path of every endpoint and ends in a slash; default "/mcp/webhooks/".
	Prefix string
	// MaxBody is the largest body in bytes; default and recommended [MaxBody].
	MaxBody int64
	// BodyTimeout is how long a body may take to arrive; default 10 s.
	BodyTimeout time.Duration
	// Tolerance is how far a timestamp may be from this clock; default DefaultTolerance.
	Tolerance time.Duration
	// Remember is how many messages an endpoint remembers, by eventId or by an envelope's webhook-id,
	// RememberFor for how long; default 8,192 and one hour, which is beyond every retry schedule of
	// the extension.
	Remember    int
	RememberFor time.Duration
	// Logger gets what was refused and why, without secrets, paths and payloads; nil means
	// slog.Default().
	Logger *slog.Logger
}

// A Receiver is the http.Handler that callbacks of webhook subscriptions point to. It answers
// on the paths of its open endpoints only, and believes nothing that is not signed with the
// endpoint's secret. Mount it at its prefix behind TLS. It is safe for concurrent use. See
// CLI-5.
//
// Answers: 404 for a path that is not open, 405 for another method than POST, 415 for another
// content than plain application/json, 413 for a body that is too large, 400 for headers or a
// body that is no message, 401 for a signature or timestamp that is not accepted, 503 for what
// cannot be handed over now, so that the server tries again, and 2xx only when it was.
type Receiver struct {
	o ReceiverOptions

	mu        sync.RWMutex
	endpoints map[string]*Endpoint // by path
}

// NewReceiver makes a Receiver, or says which option cannot be used.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	if o.Prefix == "" {
		o.Prefix = "/mcp/webhooks/"
	}
	if !strings.HasPrefix(o.Prefix, "/") || !strings.HasSuffix(o.Prefix, "/") {
		return nil, errors.New("webhook: the receiver's prefix must begin and end with a slash")
	}
	if o.MaxBody <= 0 {
		o.MaxBody = wire.MaxBody
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = bodyTimeout
	}
	if o.Remember <= 0 {
		o.Remember = 8192
	}
	if o.RememberFor <= 0 {
		o.RememberFor = time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Receiver{o: o, endpoints: map[string]*Endpoint{}}, nil
}

// EndpointOptions restore an endpoint that an earlier process opened; the zero value makes a new one.
type EndpointOptions struct {
	// Path is the whole path as [Endpoint.Path] gave it; "" makes a random one.
	Path string
	// Ring holds the accepted secrets; an empty one gets a random secret.
	Ring Ring
}

// Open begins to answer on a path of its own. From now on the endpoint answers challenges, so it
// is opened before events/subscribe is called; messages get 503 until [Endpoint.Activate] (CLI-5).
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
	e := &Endpoint{receiver: r, path: o.Path, ring: o.Ring, seen: newSeen(r.o.Remember, r.o.RememberFor)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endpoints[o.Path] != nil {
		return nil, errors.New("webhook: another endpoint uses this path")
	}
	r.endpoints[o.Path] = e
	return e, nil
}

// refusal is an answer to a request that is not handed over, and the reason for the log.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

// ServeHTTP answers one request; see [Receiver] for the statuses.
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

// receive takes one message in. It returns the body of the answer, nil for none.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request, e *Endpoint) ([]byte, error) {
	if !isPlainJSON(req.Header) {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the content is not plain application/json"}
	}
	verifier := Verifier{Secrets: e.secrets(), Tolerance: r.o.Tolerance}
	if !plausible(req.Header) {
		return nil, &refusal{http.StatusBadRequest, ErrHeaders.Error()}
	}
	// What the headers alone decide needs no body; the signature does.
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
		return e.answer(d.Envelope.Challenge)
	}
	return nil, e.handOver(req.Context(), d)
}

// Bounds of the headers in bytes. A ring of four secrets and eight keys make about 1.2 KiB of
// signatures.
const (
	maxStamp          = 20 // a 64-bit number
	maxSignatures     = 8 << 10
	maxSubscriptionID = 256
)

// plausible checks the headers before anything is computed from them. What the webhook-id says is
// free, whether or not it is the eventId (D10).
func plausible(h http.Header) bool {
	return isMessageID(h.Get(wire.HeaderWebhookID)) && len(h.Get(wire.HeaderWebhookTimestamp)) <= maxStamp &&
		len(h.Get(wire.HeaderWebhookSignature)) <= maxSignatures && len(h.Get(wire.HeaderSubscriptionID)) <= maxSubscriptionID
}

// isPlainJSON checks the content's type and that nothing has to be unpacked before the signature
// can be checked.
func isPlainJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := strings.ToLower(h.Get("Content-Encoding"))
	return err == nil && media == "application/json" && (encoding == "" || encoding == "identity")
}

// readBody reads the bytes that were signed, bounded in size and time.
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

// maxChallenge bounds what a server may have echoed.
const maxChallenge = 1024

// answer echoes the challenge of a verified verification (VER-2). It passes neither the routing
// nor the dedup of messages: the server waits for it inside of the subscribe call that makes the
// endpoint routable.
func (e *Endpoint) answer(challenge string) ([]byte, error) {
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

// handOver gives d to the handler unless it has been handed over before.
func (e *Endpoint) handOver(ctx context.Context, d Delivery) error {
	handle, err := e.route(d.Subscription)
	if err != nil {
		return err
	}
	key := d.key()
	first, err := e.seen.begin(ctx, key)
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the same message is still being handed over"}
	}
	if !first {
		e.took()
		return nil
	}
	accepted := false
	defer func() { e.seen.end(key, accepted) }() // also when the handler panics
	if err := handle(ctx, d); err != nil {
		e.receiver.o.Logger.ErrorContext(ctx, "webhook message not handed over", "subscription", e.Subscription(), "error", err)
		return &refusal{http.StatusServiceUnavailable, "the application did not take the message"}
	}
	accepted = true
	e.took()
	return nil
}
