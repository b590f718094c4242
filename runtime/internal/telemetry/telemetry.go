// Package telemetry defines the attribute names of the runtime's metrics and traces and creates instruments. The
// instruments are documented in docs/observability.md. A test compares the document with the registered instruments.
package telemetry

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Prefix is the prefix of all instrument names.
const Prefix = "mcp.events."

// The attributes of instruments. Each has a small set of values: names of registered event types and fixed words.
// Values chosen by callers or endpoints are never used as attributes.
const (
	// ErrorType is the category of a failure. It is absent after a success. The attribute is defined by OpenTelemetry.
	ErrorType = attribute.Key("error.type")
	// MethodName is the name of an MCP method. The attribute is defined by OpenTelemetry.
	MethodName = attribute.Key("mcp.method.name")
	// Type is the name of an event type.
	Type = attribute.Key("mcp.events.type")
	// Outcome is the result of an operation.
	Outcome = attribute.Key("mcp.events.outcome")
	// Frame is "event" for an event frame and "control" for any other frame of a stream.
	Frame = attribute.Key("mcp.events.frame")
	// Operation is the name of a store operation.
	Operation = attribute.Key("mcp.events.operation")
	// State is the state of a webhook subscription.
	State = attribute.Key("mcp.events.state")
	// Envelope is the content of a webhook request: "event", or the type of a control envelope.
	Envelope = attribute.Key("mcp.events.envelope")
	// Verification is the method by which a callback was verified.
	Verification = attribute.Key("mcp.events.verification")
	// Provider is the service that sends webhooks.
	Provider = attribute.Key("mcp.events.provider")
	// Handler is the kind of an MCPE handler.
	Handler = attribute.Key("mcp.events.handler")
	// Work identifies the work of a shard. It is the name of an event type or of a duty.
	Work = attribute.Key("mcp.events.work")

	// Subscription and Attempt are used only as attributes of spans, because their values are unbounded.
	Subscription = attribute.Key("mcp.events.subscription")
	Attempt      = attribute.Key("mcp.events.attempt")
)

// Other is the error type of errors without a more specific type. The value is defined by OpenTelemetry.
const Other = "_OTHER"

// ErrorTypeOf returns the error type of an error, from a fixed list of words.
func ErrorTypeOf(err error) string {
	var typed *events.Error
	switch {
	case errors.Is(err, events.ErrClosed):
		return "closed"
	case errors.Is(err, events.ErrInvalidPayload):
		return "invalid_payload"
	case errors.Is(err, events.ErrTooLarge):
		return "too_large"
	case errors.Is(err, events.ErrIDReused):
		return "id_reused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &typed):
		return typed.Kind.String()
	}
	return Other
}

// Instruments creates the instruments of a meter. It records the first error.
type Instruments struct {
	meter    metric.Meter
	err      error
	observed []metric.Observable
}

// Meter returns m. If m is nil, it returns the meter for the given scope from OpenTelemetry's global provider.
func Meter(m metric.Meter, scope string) metric.Meter {
	if m != nil {
		return m
	}
	return otel.Meter(scope)
}

// New returns Instruments for m.
func New(m metric.Meter) *Instruments { return &Instruments{meter: m} }

func kept[T any](i *Instruments, name string) func(T, error) T {
	return func(v T, err error) T {
		if err != nil && i.err == nil {
			i.err = fmt.Errorf("telemetry: making %s: %w", name, err)
		}
		return v
	}
}

func observed[T metric.Observable](i *Instruments, name string) func(T, error) T {
	return func(v T, err error) T {
		i.observed = append(i.observed, v)
		return kept[T](i, name)(v, err)
	}
}

// Counter creates a counter. name must not include [Prefix].
func (i *Instruments) Counter(name, unit, what string) metric.Int64Counter {
	name = Prefix + name
	return kept[metric.Int64Counter](i, name)(i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Seconds creates a histogram of durations in seconds.
func (i *Instruments) Seconds(name, what string) metric.Float64Histogram {
	name = Prefix + name
	return kept[metric.Float64Histogram](i, name)(i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)))
}

// Observed creates a counter that is read by the callback passed to [Instruments.Observe].
func (i *Instruments) Observed(name, unit, what string) metric.Int64ObservableCounter {
	name = Prefix + name
	return observed[metric.Int64ObservableCounter](i, name)(i.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Present creates an instrument for a current value that can be added up across processes.
func (i *Instruments) Present(name, unit, what string) metric.Int64ObservableUpDownCounter {
	name = Prefix + name
	return observed[metric.Int64ObservableUpDownCounter](i, name)(
		i.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Gauge creates an instrument for a current value that cannot be added up across processes.
func (i *Instruments) Gauge(name, unit, what string) metric.Int64ObservableGauge {
	name = Prefix + name
	return observed[metric.Int64ObservableGauge](i, name)(i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Age creates an instrument for an age in seconds.
func (i *Instruments) Age(name, what string) metric.Float64ObservableGauge {
	name = Prefix + name
	return observed[metric.Float64ObservableGauge](i, name)(i.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what)))
}

// Observe registers the callback that reads the observable instruments. It returns the first error that occurred when
// an instrument was created.
func (i *Instruments) Observe(f metric.Callback) (stop func(), err error) {
	if i.err != nil || len(i.observed) == 0 {
		return func() {}, i.err
	}
	r, err := i.meter.RegisterCallback(f, i.observed...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return func() { _ = r.Unregister() }, nil
}

// Err returns the first error.
func (i *Instruments) Err() error { return i.err }

// With returns a measurement option with a precomputed attribute set, which can be reused.
func With(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
