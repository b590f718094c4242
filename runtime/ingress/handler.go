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

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Options configures a [Handler]. The zero value is valid.
type Options struct {
	// MaxBody is the maximum size of a body in bytes, both as received and decompressed. The default is the limit of
	// the service, such as 25 MB for GitHub and GitLab, or 1 MiB for a service without a limit. The response to a
	// larger body is 413. The handler reads each body into memory before it verifies the sender.
	MaxBody int64
	// BodyTimeout is the maximum time for reading a body. The default is 10 s.
	BodyTimeout time.Duration
	// RefuseUnfit makes the handler respond with 422 to a delivery that does not match payloadSchema. The failure is
	// then visible at the service, which may repeat the delivery in vain. By default, the handler logs and counts the
	// delivery and responds with 202.
	RefuseUnfit bool
	// Unmapped is called for verified deliveries that do not match any route. They are also logged at level debug and
	// counted in the metric.
	Unmapped func(ctx context.Context, d Delivery)
	// Logger logs refused requests with the reason, but without secrets and payloads. The default is slog.Default().
	Logger *slog.Logger
	// Telemetry counts deliveries by provider and outcome: otelevents.New. The default is telemetry.Discard.
	Telemetry telemetry.Recorder
}

// Values of a delivery's outcome in the metric.
const (
	outcomeEmitted   = "emitted"   // in the log of each route's event type, from now or before
	outcomeUnmapped  = "unmapped"  // matches no route
	outcomeUnfit     = "unfit"     // does not match a route's payloadSchema
	outcomeFailed    = "failed"    // could not be emitted now
	outcomeRefused   = "refused"   // not verified, or not a valid delivery
	outcomeChallenge = "challenge" // answered, without events
)

// A Handler receives webhooks from one service. It is an http.Handler and safe for concurrent use.
//
// It answers with the [Result.Answer] of the service, or without a body: 204 once every occurrence is in the log of
// its event type, even if it was there before (OCC-5); 202 if there was nothing to emit. A failure is answered with a
// line of text that depends only on the status and says what to change: 503 if an occurrence could not be emitted, so
// that the service repeats the request; 401 for a request that is not verified, without the reason; 400 for a verified
// body that is not a valid delivery; 422 with [Options.RefuseUnfit]; 413 for a body that is too large; 408 for a body
// that arrives too slowly; 415 for unsupported content; 405 for an unsupported method.
type Handler struct {
	service Service
	routes  []Route
	o       Options
}

// NewHandler returns a handler for a service's webhooks. If a route is invalid, the error identifies it.
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
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), defaultMaxBody)
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Telemetry = cmp.Or(o.Telemetry, telemetry.Discard)
	return &Handler{service: s, routes: routes, o: o}, nil
}

// ServeHTTP handles a request. For the status codes, see [Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	inbound.Deadline(w, r, h.o.BodyTimeout)
	if r.ContentLength > h.o.MaxBody {
		w.Header().Set("Connection", "close") // do not read the body
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
		status = moreSevere(status, s)
	}
	switch {
	case status >= http.StatusBadRequest:
		writeFailure(w, status)
		return
	case result.Answer == nil:
		w.WriteHeader(status)
		return
	}
	maps.Copy(w.Header(), result.Answer.Header)
	w.WriteHeader(cmp.Or(result.Answer.Status, http.StatusOK))
	_, _ = w.Write(result.Answer.Body)
}

// moreSevere returns the more severe of two statuses, for a request with several deliveries. For example, the result is
// 503 if at least one delivery must be repeated.
func moreSevere(a, b int) int {
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
	writeFailure(w, r.Status)
}

func (h *Handler) count(ctx context.Context, outcome string) {
	h.o.Telemetry.Record(ctx, telemetry.Series{Kind: telemetry.IngressDeliveries, Outcome: outcome, Detail: h.service.Provider()}, 1)
}

// deliver emits a delivery through every matching route. If one route fails, the others still emit. When the service
// repeats the delivery, only the missing occurrences are emitted (OCC-5).
func (h *Handler) deliver(ctx context.Context, header http.Header, d Delivery) (outcome string, status int) {
	attrs := []any{"provider", h.service.Provider(), "event", wire.Shown(d.Event), "action", wire.Shown(d.Action),
		"delivery", wire.Shown(d.ID)}
	var doc *document
	outcome, status = outcomeUnmapped, http.StatusAccepted
	unfit, failed := false, false
	for i := range h.routes {
		r := &h.routes[i]
		if !r.matches(d) {
			continue
		}
		outcome, status = outcomeEmitted, http.StatusNoContent
		if doc == nil {
			var err error
			if doc, err = newDocument(d.Body); err != nil { // a Service of another package may not have checked it
				h.o.Logger.WarnContext(ctx, "mcp events: a webhook is not a delivery", append(attrs, "reason", err.Error())...)
				return outcomeRefused, http.StatusBadRequest
			}
		}
		err := h.emit(ctx, header, r, d, doc)
		if m, ok := errors.AsType[*mismatchError](err); ok {
			unfit = true
			h.o.Logger.WarnContext(ctx, "mcp events: a webhook does not match its event type",
				append(attrs, "type", r.event, "wrong", errorTexts(m.fields))...)
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

// emit converts a delivery to an occurrence and emits it through one route.
func (h *Handler) emit(ctx context.Context, header http.Header, r *Route, d Delivery, doc *document) error {
	id, err := r.eventID(d, header, doc)
	if err != nil {
		return err
	}
	payload, err := r.buildPayload(doc)
	if err != nil {
		return err
	}
	o := []events.EmitOption{events.WithID(id)}
	if _, err := events.NewTime(d.Time).MarshalText(); err == nil { // not zero, and RFC 3339 can express it
		o = append(o, events.WithTimestamp(d.Time))
	}
	switch err = r.emit(ctx, payload, o); {
	case errors.Is(err, events.ErrIDReused):
		// The same delivery with a changed body, for example with a new count of attempts.
		h.o.Logger.WarnContext(ctx, "mcp events: a webhook was redelivered with another body",
			"provider", h.service.Provider(), "type", r.event, "delivery", wire.Shown(id))
		return nil
	case err == nil:
		return nil
	}
	return asMismatch(err)
}

// errorTexts returns the texts of the errors. They do not contain values from the payload, and member names are
// escaped.
func errorTexts(fields []events.FieldError) []string {
	var out []string
	for _, f := range fields {
		out = append(out, wire.Shown(f.Error()))
	}
	return out
}

// eventID converts a service's id to an eventId. It returns the id itself if it is a valid eventId (OCC-2), and
// otherwise its hash.
func eventID(id string) string {
	if wire.CheckEventID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}
