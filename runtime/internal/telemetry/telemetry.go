// Package telemetry has what all metrics and traces of the runtime share: the names of attributes, and a constructor of
// instruments. docs/observability.md lists what is measured; a test compares it with what is registered.
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

// Prefix begins the names of all instruments.
const Prefix = "mcp.events."

// The attributes of instruments. Their values are few: names of registered event types, and words of
// ours. Nothing that a caller or an endpoint chooses is one.
const (
	// ErrorType says why something failed; absent where nothing did. It is OpenTelemetry's.
	ErrorType = attribute.Key("error.type")
	// MethodName is a method of MCP. It is OpenTelemetry's.
	MethodName = attribute.Key("mcp.method.name")
	// Type is the name of an event type.
	Type = attribute.Key("mcp.events.type")
	// Outcome is the result of an operation.
	Outcome = attribute.Key("mcp.events.outcome")
	// Frame is "event", or "control" for what else a stream carries.
	Frame = attribute.Key("mcp.events.frame")
	// Operation is what a store was asked for.
	Operation = attribute.Key("mcp.events.operation")
	// State is that of webhook subscriptions.
	State = attribute.Key("mcp.events.state")
	// Envelope is what a webhook request carries: "event", or the type of a control envelope.
	Envelope = attribute.Key("mcp.events.envelope")
	// Verification is how a callback was verified.
	Verification = attribute.Key("mcp.events.verification")
	// Provider is the service that webhooks come from.
	Provider = attribute.Key("mcp.events.provider")
	// Handler is the kind of an MCPE handler.
	Handler = attribute.Key("mcp.events.handler")
	// Work is what a shard is of: an event type, or a duty.
	Work = attribute.Key("mcp.events.work")

	// Subscription and Attempt are of spans only: their values have no bound.
	Subscription = attribute.Key("mcp.events.subscription")
	Attempt      = attribute.Key("mcp.events.attempt")
)

// Other is the error type of what has no word of its own. It is OpenTelemetry's.
const Other = "_OTHER"

// ErrorTypeOf is the error type of an error of the runtime: a word of a short list.
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

// Instruments make those of one meter, and keep what went wrong.
type Instruments struct {
	meter    metric.Meter
	err      error
	observed []metric.Observable
}

// Meter is m, or that of the scope of OpenTelemetry's global provider where m is nil.
func Meter(m metric.Meter, scope string) metric.Meter {
	if m != nil {
		return m
	}
	return otel.Meter(scope)
}

// New makes instruments of m.
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

// Counter makes a counter; name has no prefix.
func (i *Instruments) Counter(name, unit, what string) metric.Int64Counter {
	name = Prefix + name
	return kept[metric.Int64Counter](i, name)(i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Seconds makes a histogram of times.
func (i *Instruments) Seconds(name, what string) metric.Float64Histogram {
	name = Prefix + name
	return kept[metric.Float64Histogram](i, name)(i.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)))
}

// Observed makes a counter of what is counted elsewhere.
func (i *Instruments) Observed(name, unit, what string) metric.Int64ObservableCounter {
	name = Prefix + name
	return observed[metric.Int64ObservableCounter](i, name)(i.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Present makes an instrument of how many there are: a sum over processes means something.
func (i *Instruments) Present(name, unit, what string) metric.Int64ObservableUpDownCounter {
	name = Prefix + name
	return observed[metric.Int64ObservableUpDownCounter](i, name)(
		i.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Gauge makes an instrument of a value that is not summed.
func (i *Instruments) Gauge(name, unit, what string) metric.Int64ObservableGauge {
	name = Prefix + name
	return observed[metric.Int64ObservableGauge](i, name)(i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// Age makes an instrument of an age.
func (i *Instruments) Age(name, what string) metric.Float64ObservableGauge {
	name = Prefix + name
	return observed[metric.Float64ObservableGauge](i, name)(i.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what)))
}

// Observe registers what fills the observed instruments, and returns what went wrong with any.
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

// Err is what went wrong.
func (i *Instruments) Err() error { return i.err }

// With is a measurement's attributes, made once and used often.
func With(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
