package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
)

// instrumentationScope is the name of this package's OpenTelemetry instrumentation scope.
const instrumentationScope = "github.com/mcpe-gen/mcpe-gen/runtime/client"

// Outcomes of attempts.
const (
	outcomeHandled = "handled"
	outcomeRetried = "retried" // failed, will be retried
	outcomeDead    = "dead"    // failed, became a dead letter
)

// Error types of problems.
const (
	problemGap         = "gap"
	problemRecoverable = "recoverable"
	problemPayload     = "payload"
	problemCommit      = "commit"
	problemFull        = "dead_letters_full"
	problemUnavailable = "unavailable"
	problemPanic       = "panic"
)

// consumeMetrics holds the instruments of one call to [Consume] (CON-7).
type consumeMetrics struct {
	tracer   trace.Tracer
	tries    metric.Int64Counter
	problems metric.Int64Counter
	close    func()
}

func (m *consumeMetrics) init(k *consumer) (err error) {
	if m.tracer = k.o.Tracer; m.tracer == nil {
		m.tracer = otel.GetTracerProvider().Tracer(instrumentationScope)
	}
	for _, f := range k.flows {
		f.counted = flowAttributes{of: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(telemetry.Type.String(f.name))}, outcomes: map[string]metric.MeasurementOption{}}
		for _, outcome := range []string{outcomeHandled, outcomeRetried, outcomeDead} {
			f.counted.outcomes[outcome] = telemetry.With(telemetry.Type.String(f.name), telemetry.Outcome.String(outcome))
		}
	}
	i := telemetry.New(telemetry.Meter(k.o.Meter, instrumentationScope))
	m.tries = i.Counter("consume.tries", "{try}", "Attempts of handlers, by outcome.")
	m.problems = i.Counter("consume.problems", "{problem}", "Problems outside the handlers.")
	running := i.Present("consume.in_flight", "{event}", "Received events that are not settled, including events that wait for a retry.")
	lag := i.Age("consume.lag", "Age of the oldest received event that is not settled.")
	m.close, err = i.Observe(func(_ context.Context, o metric.Observer) error {
		for name, c := range k.census() {
			of := metric.WithAttributes(telemetry.Type.String(name))
			o.ObserveInt64(running, c.open, of)
			o.ObserveFloat64(lag, c.lag.Seconds(), of)
		}
		return nil
	})
	return err
}

// flowAttributes holds the attributes that a flow's measurements and spans share.
type flowAttributes struct {
	of       []trace.SpanStartOption
	outcomes map[string]metric.MeasurementOption
}

// A backlog holds the observed values for one event type.
type backlog struct {
	open int64
	lag  time.Duration
}

func (k *consumer) census() map[string]backlog {
	all := map[string]backlog{}
	now := time.Now()
	for _, f := range k.flows {
		c := all[f.name]
		if s := f.sub.Load(); s != nil {
			open, oldest := s.ledger.unsettled()
			if c.open += int64(open); open > 0 {
				c.lag = max(c.lag, now.Sub(oldest))
			}
		}
		all[f.name] = c
	}
	return all
}

func (m *consumeMetrics) tried(j *job, outcome string) {
	m.tries.Add(context.Background(), 1, j.f.counted.outcomes[outcome])
}

func (m *consumeMetrics) problem(f *flow, kind string) {
	m.problems.Add(context.Background(), 1, telemetry.With(telemetry.Type.String(f.name), telemetry.ErrorType.String(kind)))
}

// problemType returns the error.type attribute of a problem.
func problemType(err error) string {
	switch {
	case errors.As(err, new(*GapError)):
		return problemGap
	case errors.As(err, new(*RecoverableError)):
		return problemRecoverable
	case errors.As(err, new(*PayloadError)):
		return problemPayload
	case errors.As(err, new(*CommitError)):
		return problemCommit
	}
	return problemUnavailable
}

// startSpan starts a span for an attempt and links it to the span in which the event was emitted.
func (m *consumeMetrics) startSpan(ctx context.Context, j *job) (context.Context, func(error)) {
	o := j.f.counted.of
	if from := emitSpanContext(j.o); from.IsValid() {
		o = append(o[:len(o):len(o)], trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := m.tracer.Start(ctx, "handle "+j.f.name, o...)
	if !span.IsRecording() {
		return ctx, func(error) { span.End() }
	}
	span.SetAttributes(telemetry.Attempt.Int(j.tries))
	return ctx, func(err error) {
		if err != nil {
			kind := telemetry.ErrorTypeOf(err)
			switch {
			case errors.As(err, new(*panicError)):
				kind = problemPanic
			case errors.As(err, new(*PayloadError)):
				kind = problemPayload
			}
			span.SetAttributes(telemetry.ErrorType.String(kind))
			span.SetStatus(codes.Error, kind)
		}
		span.End()
	}
}

// emitSpanContext returns the context of the span in which the event was emitted, if the event's _meta contains it.
func emitSpanContext(o events.Occurrence) trace.SpanContext {
	if !bytes.Contains(o.Meta, []byte(`"traceparent"`)) {
		return trace.SpanContext{}
	}
	var meta struct{ TraceParent, TraceState string }
	if json.Unmarshal(o.Meta, &meta) != nil {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": meta.TraceParent, "tracestate": meta.TraceState}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
