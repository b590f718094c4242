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

// scope names this package to OpenTelemetry. It has no internal, since dashboards and filters hold on to it.
const scope = "github.com/mcpe-gen/mcpe-gen/runtime/delivery"

// Outcomes of deliveries: of occurrences that need no attempt any more.
const (
	outcomeAcknowledged = "acknowledged"
	outcomeAbandoned    = "abandoned" // after its last attempt
	outcomeLost         = "lost"      // it could not be read or encoded any more
)

// Outcomes of attempts.
const (
	outcomeAccepted = "accepted"
	outcomeFailed   = "failed"
)

// envelopeEvent is what an attempt at an occurrence carries.
const envelopeEvent = "event"

type metrics struct {
	tracer     trace.Tracer
	deliveries metric.Int64Counter
	attempts   metric.Int64Counter
	latency    metric.Float64Histogram
	close      func()

	// attributes of what was counted before, under the engine's lock: few, because events, outcomes and
	// categories are.
	counted map[counted]measured
}

// A counted is what tells one count from another; members that do not apply are empty.
type counted struct{ event, envelope, outcome, category string }

// A measured is the attributes of a counted, as each kind of instrument takes them.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (t *metrics) init(e *Engine) (err error) {
	t.tracer = e.o.Tracer
	if t.tracer == nil {
		t.tracer = otel.GetTracerProvider().Tracer(scope)
	}
	i := telemetry.New(telemetry.Meter(e.o.Meter, scope))
	t.deliveries = i.Counter("webhook.deliveries", "{occurrence}", "Occurrences that need no attempt any more, by what became of them.")
	t.attempts = i.Counter("webhook.attempts", "{attempt}", "Requests to endpoints.")
	t.latency = i.Seconds("webhook.attempt.duration", "Time from the signature of a request to its answer or failure.")
	inFlight := i.Present("webhook.attempt.in_flight", "{attempt}", "Requests to endpoints under way.")
	live := i.Present("webhook.subscriptions", "{subscription}", "Webhook subscriptions, by whether they are delivered to.")
	lag := i.Gauge("webhook.lag", "{occurrence}", "Entries by which the slowest webhook subscription of an event type is behind its log.")
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

// A census is what observed instruments show, and how far the slowest subscription to each host is behind where one is.
type census struct {
	inFlight   int64
	live       map[operator.State]int64
	lag, hosts map[string]int64
}

func (e *Engine) census() census {
	s := census{live: map[operator.State]int64{operator.StateActive: 0, operator.StateSuspended: 0, operator.StatePaused: 0}, lag: map[string]int64{}, hosts: map[string]int64{}}
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
	e.walk(func(h *Handle) {
		if h.gone() {
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
		if base, head := h.marks.Base(), heads[h.log]; !h.quiet() && head > base {
			behind = int64(head - base)
			s.hosts[h.guest.host.name] = max(s.hosts[h.guest.host.name], behind)
		}
		s.lag[h.event] = max(s.lag[h.event], behind)
	})
	return s
}

// Lag is by how many entries the slowest subscription of each event type is behind its log.
func (e *Engine) Lag() map[string]int64 { return e.census().lag }

// Failing returns the ids of up to limit subscriptions that are suspended or whose last attempt failed, those that have
// failed for longest first, and how many there are.
func (e *Engine) Failing(limit int) (ids []string, total int) {
	type failing struct {
		since instant
		id    string
	}
	var first []failing
	earlier := func(a, b failing) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) }
	e.walk(func(h *Handle) {
		if h.gone() || !h.health.suspended && h.health.failedSince == 0 {
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

// attributes are those of c. The caller holds the engine's lock.
func (t *metrics) attributes(c counted) measured {
	o, ok := t.counted[c]
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
		o = measured{[]metric.AddOption{with}, []metric.RecordOption{with}}
		if t.counted == nil {
			t.counted = map[counted]measured{}
		}
		t.counted[c] = o
	}
	return o
}

// outcome counts an occurrence that needs no attempt any more. The caller holds the engine's lock.
func (t *metrics) outcome(h *Handle, outcome, category string) {
	t.deliveries.Add(h.e.base, 1, t.attributes(counted{event: h.event, outcome: outcome, category: category}).add...)
}

// begin opens the span of an attempt; the returned function closes it and counts the time.
func (t *metrics) begin(ctx context.Context, h *Handle, kind string, number int) (context.Context, func(result)) {
	start := time.Now()
	if kind == "" {
		kind = envelopeEvent
	}
	ctx, span := t.tracer.Start(ctx, "deliver "+h.event, trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(telemetry.Type.String(h.event), telemetry.Subscription.String(h.id),
			telemetry.Envelope.String(kind), telemetry.Attempt.Int(number))
	}
	return ctx, func(r result) {
		if r.category != "" {
			span.SetStatus(codes.Error, string(r.category))
			span.SetAttributes(telemetry.ErrorType.String(string(r.category)))
		}
		span.End()
		if r.aborted || r.at.IsZero() { // cut off by us, or never sent
			return
		}
		outcome := outcomeAccepted
		if r.category != "" {
			outcome = outcomeFailed
		}
		h.e.pulse.Attempt(h.event, h.guest.host.name, r.category != "", r.took)
		h.e.mu.Lock()
		count := t.attributes(counted{event: h.event, envelope: kind, outcome: outcome, category: string(r.category)})
		timed := t.attributes(counted{category: string(r.category)})
		h.e.mu.Unlock()
		t.attempts.Add(ctx, 1, count.add...)
		t.latency.Record(ctx, time.Since(start).Seconds(), timed.record...)
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
