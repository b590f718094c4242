package ingress

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
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
	// MaxBody is the largest body in bytes, as it comes and unpacked. The default is the limit of the service: 25 MB for
	// GitHub and GitLab, 1 MiB for services without one. A larger body is answered 413. A handler holds each body in memory
	// before it knows the sender.
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
	outcomeChallenge = "challenge" // it was answered, and has no events
)

// A Handler takes in the webhooks of one service. It is an http.Handler, safe for concurrent use.
//
// It answers with the [Result.Answer] of the service, or without a body: 204 after every occurrence is in the log of its
// event type, and also if it was there before (OCC-5); 202 if there was nothing to emit; 503 if an event type could
// not take it, so that the service repeats the request; 401 for a request that is not verified, without the reason; 400 for a
// verified body that is not a delivery; 422 by [Options.RefuseUnfit]; 413 for a body that is too large, 408 for a body
// that is too slow, 415 for content that the service does not take, 405 for a method that it does not take.
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
	if limited, ok := s.(interface{ MaxBody() int64 }); ok && o.MaxBody <= 0 {
		o.MaxBody = limited.MaxBody()
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
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

// ServeHTTP answers one request; see [Handler] for the statuses.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	inbound.Deadline(w, r, h.o.BodyTimeout)
	if r.ContentLength > h.o.MaxBody {
		w.Header().Set("Connection", "close") // rather than read on
		h.refuse(r.Context(), w, tooLarge(h.o.MaxBody))
		return
	}
	bounded := r.WithContext(r.Context())
	bounded.Body = newLimitedBody(w, r, h.o.MaxBody)
	result, err := h.service.Receive(bounded)
	if err != nil {
		h.refuse(r.Context(), w, refusalOf(err))
		return
	}
	if a := result.Answer; a != nil && a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		h.refuse(r.Context(), w, &Refusal{http.StatusInternalServerError, fmt.Sprintf("Answer.Status is %d, not 200 to 599", a.Status)})
		return
	}
	if len(result.Deliveries) == 0 && result.Answer != nil {
		h.count(r.Context(), outcomeChallenge)
	}
	status := http.StatusAccepted
	for _, d := range result.Deliveries {
		outcome, s := h.deliver(r.Context(), r.Header, d)
		h.count(r.Context(), outcome)
		status = worse(status, s)
	}
	if result.Answer == nil || status >= http.StatusBadRequest {
		w.WriteHeader(status)
		return
	}
	maps.Copy(w.Header(), result.Answer.Header)
	w.WriteHeader(cmp.Or(result.Answer.Status, http.StatusOK))
	_, _ = w.Write(result.Answer.Body)
}

// worse returns the status of a request of several deliveries: 503 if one should be sent again, 204 if one was emitted.
func worse(a, b int) int {
	rank := []int{http.StatusAccepted, http.StatusNoContent, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	return rank[max(slices.Index(rank, a), slices.Index(rank, b))]
}

func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, r *Refusal) {
	if r.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	h.count(ctx, outcomeRefused)
	h.o.Logger.WarnContext(ctx, "mcp events: a webhook was refused",
		"provider", h.service.Provider(), "status", r.Status, "reason", wire.Shown(r.Reason))
	w.WriteHeader(r.Status)
}

func (h *Handler) count(ctx context.Context, outcome string) {
	h.deliveries.Add(ctx, 1, metric.WithAttributes(
		telemetry.Provider.String(h.service.Provider()), telemetry.Outcome.String(outcome)))
}

// deliver emits a delivery by every route that takes it. When an event type cannot take it now, the others keep
// what they have: sent again, it is emitted by the ones that lack it (OCC-5).
func (h *Handler) deliver(ctx context.Context, header http.Header, d Delivery) (outcome string, status int) {
	attrs := []any{"provider", h.service.Provider(), "event", wire.Shown(d.Event), "action", wire.Shown(d.Action),
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
			if doc, err = newDocument(d.Body); err != nil { // a service of another package may not have looked
				h.o.Logger.WarnContext(ctx, "mcp events: a webhook is not a delivery", append(attrs, "reason", err.Error())...)
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
	if _, err := events.NewTime(d.Time).MarshalText(); err == nil { // neither zero nor beyond what RFC 3339 writes
		o = append(o, events.WithTimestamp(d.Time))
	}
	switch err = r.emit(ctx, payload, o); {
	case errors.Is(err, events.ErrIDReused):
		// The same delivery, whose body says now what has changed since, such as how often it was sent.
		h.o.Logger.WarnContext(ctx, "mcp events: a webhook was redelivered with another body",
			"provider", h.service.Provider(), "type", r.event, "delivery", wire.Shown(id))
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
