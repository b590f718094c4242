// Package otelevents reports the metrics and traces of servers and clients to OpenTelemetry. It defines the names in
// docs/observability.md:
//
//	es, err := server.New(srv, server.Options{Telemetry: otelevents.New(otelevents.Options{})})
package otelevents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Options configures a [Recorder].
type Options struct {
	// MeterProvider and TracerProvider default to OpenTelemetry's global providers.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// A Recorder is a [telemetry.Recorder] for OpenTelemetry. Servers and clients can share it.
type Recorder struct {
	instruments [len(rows)]instrument

	mu sync.RWMutex
	// prepared contains the attributes of the series in use. Their number is small, because the values are.
	prepared map[telemetry.Series]attributes
}

// attributes are the attributes of a series as options for each use.
type attributes struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
	start   []trace.SpanStartOption
}

// New returns a Recorder. It reports errors of the providers to otel.Handle.
func New(o Options) *Recorder {
	o.MeterProvider = cmp.Or(o.MeterProvider, otel.GetMeterProvider())
	o.TracerProvider = cmp.Or(o.TracerProvider, otel.GetTracerProvider())
	r := &Recorder{prepared: map[telemetry.Series]attributes{}}
	meters := map[string]metric.Meter{}
	for kind := range rows {
		scope := rows[kind].scope
		if meters[scope] == nil {
			meters[scope] = o.MeterProvider.Meter(scopes + scope)
		}
		r.instruments[kind] = rows[kind].newInstrument(meters[scope], o.TracerProvider)
	}
	return r
}

// attributesOf returns the attributes of a series.
func (r *Recorder) attributesOf(s telemetry.Series) attributes {
	r.mu.RLock()
	a, ok := r.prepared[s]
	r.mu.RUnlock()
	if ok {
		return a
	}
	row := &rows[s.Kind]
	var all []attribute.KeyValue
	for _, kv := range []attribute.KeyValue{typeKey.String(s.Type), outcomeKey.String(s.Outcome), failureKey.String(s.Failure), row.detail.String(s.Detail)} {
		if kv.Valid() && kv.Value.AsString() != "" {
			all = append(all, kv)
		}
	}
	with := metric.WithAttributeSet(attribute.NewSet(all...))
	kind := trace.SpanKindProducer
	if row.form == consumer {
		kind = trace.SpanKindConsumer
	}
	a = attributes{[]metric.AddOption{with}, []metric.RecordOption{with}, []metric.ObserveOption{with},
		[]trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(all...)}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared[s] = a
	return a
}

// Record implements [telemetry.Recorder].
func (r *Recorder) Record(ctx context.Context, s telemetry.Series, value float64) {
	if i := &r.instruments[s.Kind]; i.counter != nil {
		i.counter.Add(ctx, int64(value), r.attributesOf(s).add...)
	} else {
		i.seconds.Record(ctx, value, r.attributesOf(s).record...)
	}
}

// Observe implements [telemetry.Recorder].
func (r *Recorder) Observe(kinds []telemetry.Kind, read func(report func(telemetry.Series, float64))) (stop func()) {
	var observed []metric.Observable
	for _, kind := range kinds {
		observed = append(observed, r.instruments[kind].observed)
	}
	registration, err := r.instruments[kinds[0]].meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(func(s telemetry.Series, value float64) {
			with := r.attributesOf(s).observe
			switch i := r.instruments[s.Kind].observed.(type) {
			case metric.Int64Observable:
				o.ObserveInt64(i, int64(value), with...)
			case metric.Float64Observable:
				o.ObserveFloat64(i, value, with...)
			}
		})
		return nil
	}, observed...)
	if err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() { _ = registration.Unregister() }
}

// Begin implements [telemetry.Recorder]. It starts a span, which is linked to the span in which a handled event was
// emitted.
func (r *Recorder) Begin(ctx context.Context, a telemetry.Attempt) context.Context {
	o := r.attributesOf(a.Series).start
	if from := emitSpanContext(a.Meta); from.IsValid() {
		o = append(o[:len(o):len(o)], trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := r.instruments[a.Kind].tracer.Start(ctx, rows[a.Kind].name+a.Type, o...)
	if span.IsRecording() {
		span.SetAttributes(attemptKey.Int(a.Number))
		if a.Subscription != "" {
			span.SetAttributes(subscriptionKey.String(a.Subscription))
		}
	}
	return ctx
}

// End implements [telemetry.Recorder]. It ends the span.
func (r *Recorder) End(ctx context.Context, failure string) {
	span := trace.SpanFromContext(ctx)
	if failure != "" && span.IsRecording() {
		span.SetStatus(codes.Error, failure)
		span.SetAttributes(failureKey.String(failure))
	}
	span.End()
}

// emitSpanContext returns the context of the span in which an event was emitted, if the event's _meta contains it.
func emitSpanContext(eventMeta json.RawMessage) trace.SpanContext {
	if !bytes.Contains(eventMeta, []byte(`"traceparent"`)) {
		return trace.SpanContext{}
	}
	var meta struct{ TraceParent, TraceState string }
	if json.Unmarshal(eventMeta, &meta) != nil {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": meta.TraceParent, "tracestate": meta.TraceState}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// TraceContext returns the W3C trace context of ctx, for server.Options.TraceContext.
func TraceContext(ctx context.Context) (traceParent, traceState string) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}
