package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// scopeName is the OpenTelemetry scope of this package. It omits "internal" because users' dashboards and filters
// depend on the name.
const scopeName = "github.com/mcpe-gen/mcpe-gen/runtime/delivery"

// Outcomes of settled occurrences.
const (
	outcomeAcknowledged = "acknowledged"
	outcomeAbandoned    = "abandoned" // after its last attempt
	outcomeLost         = "lost"      // it could no longer be read or encoded
)

// Outcomes of attempts.
const (
	outcomeAccepted = "accepted"
	outcomeFailed   = "failed"
)

// envelopeEvent is the envelope type of an occurrence.
const envelopeEvent = "event"

type metrics struct {
	tracer     trace.Tracer
	deliveries metric.Int64Counter
	attempts   metric.Int64Counter
	latency    metric.Float64Histogram
	close      func()

	// cached contains the attribute sets that are in use. Their number is small, because there are only a few events,
	// outcomes and categories. The engine's lock guards it.
	cached map[countKey]countAttributes
}

// A countKey identifies a set of attributes. Fields that do not apply are empty.
type countKey struct{ event, envelope, outcome, category string }

// countAttributes contains the attributes of a countKey as options for each kind of instrument.
type countAttributes struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (t *metrics) init(e *Engine) (err error) {
	t.tracer = e.o.Tracer
	if t.tracer == nil {
		t.tracer = otel.GetTracerProvider().Tracer(scopeName)
	}
	i := telemetry.New(telemetry.Meter(e.o.Meter, scopeName))
	t.deliveries = i.Counter("webhook.deliveries", "{occurrence}", "Occurrences that were settled, by outcome.")
	t.attempts = i.Counter("webhook.attempts", "{attempt}", "Requests to endpoints.")
	t.latency = i.Seconds("webhook.attempt.duration", "Time from the signature of a request to its answer or failure.")
	inFlight := i.Present("webhook.attempt.in_flight", "{attempt}", "Requests to endpoints in flight.")
	live := i.Present("webhook.subscriptions", "{subscription}", "Webhook subscriptions, by whether they are delivered to.")
	lag := i.Gauge("webhook.lag", "{occurrence}", "Entries by which the slowest webhook subscription of an event type lags its log.")
	t.close, err = i.Observe(func(_ context.Context, o metric.Observer) error {
		s := e.census()
		o.ObserveInt64(inFlight, s.inFlight)
		for state, n := range s.live {
			o.ObserveInt64(live, n, metric.WithAttributes(telemetry.State.String(string(state))))
		}
		for event, n := range s.lag {
			o.ObserveInt64(lag, n, metric.WithAttributes(telemetry.Type.String(event)))
		}
		return nil
	})
	return err
}

// A census contains the values of the observed instruments.
type census struct {
	inFlight int64
	live     map[operator.State]int64
	lag      map[string]int64
}

func (e *Engine) census() census {
	s := census{live: map[operator.State]int64{operator.StateActive: 0, operator.StateSuspended: 0, operator.StatePaused: 0}, lag: map[string]int64{}}
	heads := map[*Log]store.Position{}
	e.mu.Lock()
	s.inFlight = int64(e.flying)
	for shard := range e.shards {
		for l := range shard.logs {
			heads[l] = 0
		}
	}
	e.mu.Unlock()
	for l := range heads {
		heads[l] = l.head()
	}
	e.visitHandles(func(h *Handle) {
		if h.hasEnded() {
			return
		}
		switch {
		case h.pausedAt != 0:
			s.live[operator.StatePaused]++
		case h.health.suspended:
			s.live[operator.StateSuspended]++
		default:
			s.live[operator.StateActive]++
		}
		if h.log == nil {
			return
		}
		behind := int64(0)
		if base, head := h.marks.Base(), heads[h.log]; !h.isQuiet() && head > base {
			behind = int64(head - base)
		}
		s.lag[h.event] = max(s.lag[h.event], behind)
	})
	return s
}

// Lag returns, for each event type, how many entries its slowest subscription lags behind the log.
func (e *Engine) Lag() map[string]int64 { return e.census().lag }

// Failing returns the ids of up to limit failing subscriptions and the total number of failing subscriptions. The
// subscription that has been failing longest is first. A subscription is failing if it is suspended or its last attempt
// failed.
func (e *Engine) Failing(limit int) (ids []string, total int) {
	type failing struct {
		since instant
		id    string
	}
	var first []failing
	earlier := func(a, b failing) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) }
	e.visitHandles(func(h *Handle) {
		if h.hasEnded() || !h.health.suspended && h.health.failedSince == 0 {
			return
		}
		total++
		f := failing{h.health.failedSince, h.id}
		if i, _ := slices.BinarySearchFunc(first, f, earlier); i < limit {
			first = slices.Insert(first[:min(len(first), limit-1)], i, f)
		}
	})
	for _, f := range first {
		ids = append(ids, f.id)
	}
	return ids, total
}

// attributesFor returns the attributes for c and caches them. The caller must hold the engine's lock.
func (t *metrics) attributesFor(c countKey) countAttributes {
	o, ok := t.cached[c]
	if !ok {
		var set []attribute.KeyValue
		for _, a := range []attribute.KeyValue{
			telemetry.Type.String(c.event), telemetry.Envelope.String(c.envelope), telemetry.Outcome.String(c.outcome),
			telemetry.ErrorType.String(c.category),
		} {
			if a.Value.AsString() != "" {
				set = append(set, a)
			}
		}
		with := telemetry.With(set...)
		o = countAttributes{[]metric.AddOption{with}, []metric.RecordOption{with}}
		if t.cached == nil {
			t.cached = map[countKey]countAttributes{}
		}
		t.cached[c] = o
	}
	return o
}

// countOutcome counts a settled occurrence. The caller must hold the engine's lock.
func (t *metrics) countOutcome(h *Handle, outcome, category string) {
	t.deliveries.Add(h.e.base, 1, t.attributesFor(countKey{event: h.event, outcome: outcome, category: category}).add...)
}

// startSpan starts the span of an attempt. The returned function ends the span and records the duration of the attempt.
func (t *metrics) startSpan(ctx context.Context, h *Handle, kind string, number int) (context.Context, func(attemptResult)) {
	start := time.Now()
	if kind == "" {
		kind = envelopeEvent
	}
	ctx, span := t.tracer.Start(ctx, "deliver "+h.event, trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(telemetry.Type.String(h.event), telemetry.Subscription.String(h.id),
			telemetry.Envelope.String(kind), telemetry.Attempt.Int(number))
	}
	return ctx, func(r attemptResult) {
		if r.category != "" {
			span.SetStatus(codes.Error, string(r.category))
			span.SetAttributes(telemetry.ErrorType.String(string(r.category)))
		}
		span.End()
		if r.aborted || r.at.IsZero() { // canceled by the engine, or never sent
			return
		}
		outcome := outcomeAccepted
		if r.category != "" {
			outcome = outcomeFailed
		}
		h.e.mu.Lock()
		count := t.attributesFor(countKey{event: h.event, envelope: kind, outcome: outcome, category: string(r.category)})
		timed := t.attributesFor(countKey{category: string(r.category)})
		h.e.mu.Unlock()
		t.attempts.Add(ctx, 1, count.add...)
		t.latency.Record(ctx, time.Since(start).Seconds(), timed.record...)
	}
}

// A logLine is a log message that is written after the engine's lock is released.
type logLine struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// queueLog queues a log message, which unlock writes. The caller holds the lock.
func (e *Engine) queueLog(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	if e.o.Logger.Enabled(context.Background(), level) {
		e.lines = append(e.lines, logLine{level, message, h.logAttrs(more...)})
	}
}

// unlock releases e.mu and writes the queued log messages.
func (e *Engine) unlock() {
	lines := e.lines
	e.lines = nil
	e.mu.Unlock()
	for _, l := range lines {
		e.o.Logger.LogAttrs(context.Background(), l.level, l.message, l.attrs...)
	}
}

// writeLog writes a log message about a subscription. Log messages can contain ids and categories, but never the URL,
// secrets or payloads.
func (e *Engine) writeLog(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	ctx := context.Background()
	if e.o.Logger.Enabled(ctx, level) {
		e.o.Logger.LogAttrs(ctx, level, message, h.logAttrs(more...)...)
	}
}
