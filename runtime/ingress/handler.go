package ingress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
)

// Options configure a [Handler]; the zero value works.
type Options struct {
	// MaxBody is the largest body in bytes; default 1 MiB. A larger one is answered 413.
	MaxBody int64
	// BodyTimeout is how long a body may take to arrive; default 10 s.
	BodyTimeout time.Duration
	// RefuseUnfit answers 422 where a delivery does not fit payloadSchema, so that it shows at the service, which
	// may send it again. The default is 202: it is logged and counted here, and would never fit.
	RefuseUnfit bool
	// Unmapped is told of verified deliveries that no route takes, beside the log (level debug) and the metric.
	Unmapped func(ctx context.Context, d Delivery)
	// Logger gets what was refused and why, without secrets and payloads; default slog.Default().
	Logger *slog.Logger
	// Meter counts deliveries as mcp.events.ingress.deliveries by provider and outcome; nil means the global one.
	Meter metric.Meter
}

// Outcomes of a delivery, as the metric counts them.
const (
	outcomeEmitted   = "emitted"   // each route's event type has it, now or since before
	outcomeUnmapped  = "unmapped"  // no route takes it
	outcomeUnfit     = "unfit"     // it does not fit the payloadSchema of a route
	outcomeFailed    = "failed"    // an event type could not take it now
	outcomeRefused   = "refused"   // it was not verified, or is no delivery
	outcomeChallenge = "challenge" // it asked for a text back
)

// A Handler takes in the webhooks of one service. It is an http.Handler, safe for concurrent use.
//
// Answers, all without a body: 204 once every occurrence is in the log of its event type, and also when it was
// there before (OCC-5); 202 when there was nothing to emit; 503 when an event type could not take it, so that the
// service sends it again; 401 for whatever is not verified, without the reason; 400 for a verified body that is no
// delivery; 422 by [Options.RefuseUnfit]; 413 for a body that is too large, 408 for one that is too slow, 415 for
// other content than plain application/json, 405 for another method than POST. A challenge is answered 200.
type Handler struct {
	service    Service
	routes     []Route
	o          Options
	deliveries metric.Int64Counter
}

// NewHandler makes the handler of a service's webhooks. The error says which route is wrong.
func NewHandler(s Service, o Options, routes ...Route) (*Handler, error) {
	if s == nil {
		return nil, errors.New("ingress: no service given")
	}
	if len(routes) == 0 {
		return nil, errors.New("ingress: no routes given, so nothing could be emitted")
	}
	_, needsID := s.(*HMAC)
	var schemas validate.Library
	routes = slices.Clone(routes)
	for i, r := range routes {
		switch {
		case r.err != nil:
			return nil, r.err
		case r.emit == nil:
			return nil, errors.New("ingress: a route was not made by To")
		case r.from.Provider != s.Provider():
			return nil, fmt.Errorf("ingress: the route to %s is from %s, and the service is %s",
				r.event, r.from.Provider, s.Provider())
		case needsID && r.from.ID == "":
			return nil, fmt.Errorf("ingress: the route to %s does not say where the delivery id is", r.event)
		}
		var err error
		if routes[i].check, err = schemas.Compile(r.schema); err != nil {
			return nil, fmt.Errorf("ingress: the route to %s: payloadSchema: %w", r.event, err)
		}
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	h := &Handler{service: s, routes: routes, o: o}
	i := telemetry.New(telemetry.Meter(o.Meter, "github.com/mcpe-gen/mcpe-gen/runtime/ingress"))
	h.deliveries = i.Counter("ingress.deliveries", "{delivery}", "Webhooks of services that arrived.")
	if err := i.Err(); err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	return h, nil
}

// A refusal is an answer to a request that is not taken in, and the reason for the log.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

// ServeHTTP answers one request; see [Handler] for the statuses.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	inbound.Deadline(w, r, h.o.BodyTimeout)
	if s, ok := h.service.(*CloudEvents); ok && r.Method == http.MethodOptions && s.allow(w, r.Header) {
		h.count(r.Context(), outcomeChallenge)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.refuse(r.Context(), w, &refusal{http.StatusMethodNotAllowed, "the method is not POST"})
		return
	}
	d, body, err := h.receive(w, r)
	if err != nil {
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			refused = &refusal{http.StatusBadRequest, err.Error()}
		}
		h.refuse(r.Context(), w, refused)
		return
	}
	if d.Challenge != "" {
		h.count(r.Context(), outcomeChallenge)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, d.Challenge)
		return
	}
	outcome, status := h.deliver(r.Context(), r.Header, d, body)
	h.count(r.Context(), outcome)
	w.WriteHeader(status)
}

func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, r *refusal) {
	h.count(ctx, outcomeRefused)
	h.o.Logger.WarnContext(ctx, "mcp events: a webhook was refused",
		"provider", h.service.Provider(), "status", r.status, "reason", wire.Shown(r.reason))
	w.WriteHeader(r.status)
}

func (h *Handler) count(ctx context.Context, outcome string) {
	h.deliveries.Add(ctx, 1, metric.WithAttributes(
		telemetry.Provider.String(h.service.Provider()), telemetry.Outcome.String(outcome)))
}

// receive takes a request in and verifies it. An error that is no refusal is about the content of what was verified.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request) (Delivery, []byte, error) {
	_, headersAlone := h.service.(*CloudEvents) // an event without data has neither a body nor its type
	headersAlone = headersAlone && r.ContentLength == 0 && r.Header.Get("Content-Type") == ""
	if !isPlainJSON(r.Header) && !headersAlone {
		return Delivery{}, nil, &refusal{http.StatusUnsupportedMediaType, "the content is not plain application/json"}
	}
	if err := hopeless(h.service, r.Header); err != nil {
		return Delivery{}, nil, &refusal{http.StatusUnauthorized, err.Error()}
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return Delivery{}, nil, err
	}
	if err := h.service.Verify(r.Header, body); err != nil {
		return Delivery{}, nil, &refusal{http.StatusUnauthorized, err.Error()}
	}
	d, err := h.service.Delivery(r.Header, body)
	if s, ok := h.service.(*CloudEvents); ok && err == nil {
		body, err = s.document(r.Header, body)
	}
	return d, body, err
}

// isPlainJSON checks the content's type, and that nothing has to be unpacked to get the bytes that were signed.
func isPlainJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := strings.ToLower(h.Get("Content-Encoding"))
	isJSON := media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
	return err == nil && isJSON && (encoding == "" || encoding == "identity")
}

// readBody reads the bytes as they came, bounded in size and time.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := func() error {
		return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", h.o.MaxBody)}
	}
	if r.ContentLength > h.o.MaxBody {
		w.Header().Set("Connection", "close") // rather than read on what is not wanted
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{http.StatusRequestTimeout, "the body came too slowly"}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "the body broke off"}
	}
	inbound.Lift(w)
	return body, nil
}

// deliver emits a delivery by every route that takes it. When an event type cannot take it now, the others keep
// what they have: sent again, it is emitted by the ones that lack it (OCC-5).
func (h *Handler) deliver(
	ctx context.Context, header http.Header, d Delivery, body []byte,
) (outcome string, status int) {
	attrs := []any{"provider", d.Provider, "event", wire.Shown(d.Event), "action", wire.Shown(d.Action),
		"delivery", wire.Shown(d.ID)}
	var doc *document
	outcome, status = outcomeUnmapped, http.StatusAccepted
	unfit, failed := false, false
	for i := range h.routes {
		r := &h.routes[i]
		if !r.takes(d) {
			continue
		}
		outcome, status = outcomeEmitted, http.StatusNoContent
		if doc == nil {
			var err error
			if doc, err = newDocument(body); err != nil { // a service of the author's own may not have looked
				return outcomeRefused, http.StatusBadRequest
			}
		}
		err := h.emit(ctx, header, r, d, doc)
		if m, ok := errors.AsType[*misfit](err); ok {
			unfit = true
			h.o.Logger.WarnContext(ctx, "mcp events: a webhook does not match its event type",
				append(attrs, "type", r.event, "wrong", places(m.fields))...)
		} else if err != nil {
			failed = true
			h.o.Logger.ErrorContext(ctx, "mcp events: a webhook was not emitted",
				append(attrs, "type", r.event, "error", wire.Shown(err.Error()))...)
		}
	}
	switch {
	case outcome == outcomeUnmapped:
		h.o.Logger.DebugContext(ctx, "mcp events: no route takes a webhook", attrs...)
		if h.o.Unmapped != nil {
			h.o.Unmapped(ctx, d)
		}
	case failed:
		return outcomeFailed, http.StatusServiceUnavailable
	case unfit && h.o.RefuseUnfit:
		return outcomeUnfit, http.StatusUnprocessableEntity
	case unfit:
		return outcomeUnfit, http.StatusAccepted
	}
	return outcome, status
}

// emit emits a delivery by one route.
func (h *Handler) emit(ctx context.Context, header http.Header, r *Route, d Delivery, doc *document) error {
	id, err := r.id(d, header, doc)
	if err != nil {
		return err
	}
	payload, err := r.payload(doc)
	if err != nil {
		return err
	}
	o := []events.EmitOption{events.WithID(id)}
	if !d.Time.IsZero() {
		o = append(o, events.WithTimestamp(d.Time))
	}
	switch err = r.emit(ctx, payload, o); {
	case errors.Is(err, events.ErrIDReused):
		// The same delivery, whose body says now what has changed since, such as how often it was sent.
		h.o.Logger.WarnContext(ctx, "mcp events: a webhook was redelivered with another body",
			"provider", d.Provider, "type", r.event, "delivery", wire.Shown(id))
		return nil
	case err == nil:
		return nil
	}
	return cause(err)
}

// places lists what is wrong without any value of the payload: names of members are escaped.
func places(fields []events.FieldError) []string {
	var out []string
	for _, f := range fields {
		out = append(out, wire.Shown(f.Error()))
	}
	return out
}

// eventID makes an eventId of a service's id: itself wherever it can go on the wire (OCC-2).
func eventID(id string) string {
	if wire.CheckEventID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}
