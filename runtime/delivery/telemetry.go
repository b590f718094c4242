package delivery

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/mcpe-gen/mcpe-gen/runtime/delivery"

// Outcomes of attempts and occurrences.
const (
	outcomeAcknowledged = "acknowledged"
	outcomeFailed       = "failed"    // an attempt that may be followed by another
	outcomeAbandoned    = "abandoned" // an occurrence after its last attempt
	outcomeLost         = "lost"      // an occurrence that could not be read or encoded any more
)

type telemetry struct {
	tracer   trace.Tracer
	outcomes metric.Int64Counter
	latency  metric.Float64Histogram
	observed metric.Registration

	// attributes of what was counted before, under the engine's lock: few, because events and
	// categories are.
	counted map[counted]metric.MeasurementOption
}

// A counted is what tells one count from another; event is empty for latencies.
type counted struct{ event, outcome, category string }

func (t *telemetry) init(e *Engine) error {
	t.tracer = e.o.Tracer
	if t.tracer == nil {
		t.tracer = otel.GetTracerProvider().Tracer(scope)
	}
	m := e.o.Meter
	if m == nil {
		m = otel.GetMeterProvider().Meter(scope)
	}
	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	t.outcomes, err = m.Int64Counter("mcpe.webhook.deliveries", metric.WithDescription("Attempts and occurrences by outcome."), metric.WithUnit("{delivery}"))
	var e1 error
	t.latency, e1 = m.Float64Histogram("mcpe.webhook.attempt.duration", metric.WithDescription("Time from signing to the answer."), metric.WithUnit("s"))
	keep(e1)
	inFlight, e1 := m.Int64ObservableGauge("mcpe.webhook.in_flight", metric.WithDescription("Attempts under way."), metric.WithUnit("{attempt}"))
	keep(e1)
	live, e1 := m.Int64ObservableGauge("mcpe.webhook.subscriptions", metric.WithDescription("Live subscriptions."), metric.WithUnit("{subscription}"))
	keep(e1)
	suspended, e1 := m.Int64ObservableGauge("mcpe.webhook.suspended", metric.WithDescription("Suspended subscriptions."), metric.WithUnit("{subscription}"))
	keep(e1)
	lag, e1 := m.Int64ObservableGauge("mcpe.webhook.lag", metric.WithDescription("Entries by which the slowest subscription of an event type is behind its log."), metric.WithUnit("{entry}"))
	keep(e1)
	if err != nil {
		return err
	}
	t.observed, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := e.census()
		o.ObserveInt64(inFlight, s.inFlight)
		o.ObserveInt64(live, s.live)
		o.ObserveInt64(suspended, s.suspended)
		for event, n := range s.lag {
			o.ObserveInt64(lag, n, metric.WithAttributes(attribute.String("mcpe.event", event)))
		}
		return nil
	}, inFlight, live, suspended, lag)
	return err
}

func (t *telemetry) close() { _ = t.observed.Unregister() }

// A census is what gauges show.
type census struct {
	inFlight, live, suspended int64
	lag                       map[string]int64
}

func (e *Engine) census() census {
	s := census{lag: map[string]int64{}}
	heads := map[*Log]store.Position{}
	e.mu.Lock()
	for l := range e.saver.logs {
		heads[l] = 0
	}
	e.mu.Unlock()
	for l := range heads {
		heads[l] = l.head()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.inFlight = int64(e.flying)
	for h := range e.handles {
		if h.gone {
			continue
		}
		s.live++
		if h.health.suspended {
			s.suspended++
		}
		if h.log == nil {
			continue
		}
		behind := int64(0)
		if base, head := h.marks.Base(), heads[h.log]; !h.quiet() && head > base {
			behind = int64(head - base)
		}
		s.lag[h.event] = max(s.lag[h.event], behind)
	}
	return s
}

// attributes are those of c.
func (t *telemetry) attributes(c counted) metric.MeasurementOption {
	o, ok := t.counted[c]
	if !ok {
		set := []attribute.KeyValue{attribute.String("error.type", c.category)}
		if c.event != "" {
			set = append(set, attribute.String("mcpe.event", c.event), attribute.String("mcpe.outcome", c.outcome))
		}
		o = metric.WithAttributeSet(attribute.NewSet(set...))
		if t.counted == nil {
			t.counted = map[counted]metric.MeasurementOption{}
		}
		t.counted[c] = o
	}
	return o
}

func (t *telemetry) outcome(h *Handle, outcome, category string) {
	t.outcomes.Add(h.e.base, 1, t.attributes(counted{h.event, outcome, category}))
}

// begin opens the span of an attempt; the returned function closes it and counts the time.
func (t *telemetry) begin(ctx context.Context, h *Handle, kind string, number int) (context.Context, func(result)) {
	start := time.Now()
	ctx, span := t.tracer.Start(ctx, "deliver "+h.event, trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("mcpe.event", h.event), attribute.String("mcpe.subscription", h.id),
			attribute.String("mcpe.envelope", kind), attribute.Int("mcpe.attempt", number))
	}
	return ctx, func(r result) {
		if r.category != "" {
			span.SetStatus(codes.Error, string(r.category))
		}
		span.End()
		if !r.aborted {
			took := time.Since(start).Seconds()
			h.e.mu.Lock()
			o := t.attributes(counted{category: string(r.category)})
			h.e.mu.Unlock()
			t.latency.Record(ctx, took, o)
		}
	}
}

// A line is a log line that waits until the engine's lock is free.
type line struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// note has a line written when the lock, which the caller holds, is given up by unlock.
func (e *Engine) note(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	if e.o.Logger.Enabled(context.Background(), level) {
		e.lines = append(e.lines, line{level, message, h.logAttrs(more...)})
	}
}

// unlock gives up e.mu and writes what was noted.
func (e *Engine) unlock() {
	lines := e.lines
	e.lines = nil
	e.mu.Unlock()
	for _, l := range lines {
		e.o.Logger.LogAttrs(context.Background(), l.level, l.message, l.attrs...)
	}
}

// log writes a line about a subscription: ids and categories, never its URL, secrets or payloads.
func (e *Engine) log(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	ctx := context.Background()
	if e.o.Logger.Enabled(ctx, level) {
		e.o.Logger.LogAttrs(ctx, level, message, h.logAttrs(more...)...)
	}
}
