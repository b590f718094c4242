// Package metertest provides a meter that records instruments and measurements for tests.
package metertest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpe-gen/mcpe-gen/runtime/otelevents"
)

// An Instrument describes an instrument created by a [Meter].
type Instrument struct{ Name, Kind, Unit, Description string }

// A Meter records instruments and measurements. The zero value is ready to use.
type Meter struct {
	noop.Meter
	mu          sync.Mutex
	instruments map[string]Instrument
	counted     map[string]int64
	callbacks   map[*registration]metric.Callback
}

// Recorder returns a recorder that reports metrics to m, and spans to t if it is not nil.
func (m *Meter) Recorder(t trace.Tracer) *otelevents.Recorder {
	o := otelevents.Options{MeterProvider: meterProvider{m: m}, TracerProvider: tracenoop.NewTracerProvider()}
	if t != nil {
		o.TracerProvider = tracerProvider{t: t}
	}
	return otelevents.New(o)
}

type meterProvider struct {
	noop.MeterProvider
	m *Meter
}

func (p meterProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.m }

type tracerProvider struct {
	tracenoop.TracerProvider
	t trace.Tracer
}

func (p tracerProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return p.t }

type registration struct {
	noop.Registration
	m *Meter
}

func (r *registration) Unregister() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	delete(r.m.callbacks, r)
	return nil
}

func (m *Meter) made(i Instrument) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.instruments == nil {
		m.instruments = map[string]Instrument{}
	}
	m.instruments[i.Name] = i
}

// Instruments returns all created instruments by name.
func (m *Meter) Instruments() map[string]Instrument {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.instruments)
}

// Callbacks returns the number of registered callbacks.
func (m *Meter) Callbacks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.callbacks)
}

// Key returns the key of a measurement. It consists of the instrument's name, a space, and the attributes as
// key=value,key=value, sorted by key.
func Key(name string, set attribute.Set) string {
	if set.Len() == 0 {
		return name
	}
	return name + " " + set.Encoded(attribute.DefaultEncoder())
}

func (m *Meter) add(name string, set attribute.Set, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counted == nil {
		m.counted = map[string]int64{}
	}
	m.counted[Key(name, set)] += n
}

// Counted returns the sums of counters and the number of values recorded by histograms, by [Key].
func (m *Meter) Counted() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counted)
}

// Observed calls the callbacks and returns the observed values by [Key].
func (m *Meter) Observed(t testing.TB) map[string]float64 {
	m.mu.Lock()
	callbacks := slices.Collect(maps.Values(m.callbacks))
	m.mu.Unlock()
	o := observer{values: map[string]float64{}}
	for _, f := range callbacks {
		if err := f(context.Background(), o); err != nil {
			t.Error(err)
		}
	}
	return o.values
}

type counter struct {
	noop.Int64Counter
	m    *Meter
	name string
}

func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	c.m.add(c.name, metric.NewAddConfig(o).Attributes(), n)
}

func (m *Meter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(o...)
	m.made(Instrument{name, "counter", c.Unit(), c.Description()})
	return counter{m: m, name: name}, nil
}

type histogram struct {
	noop.Float64Histogram
	m    *Meter
	name string
}

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	h.m.add(h.name, metric.NewRecordConfig(o).Attributes(), 1)
}

func (m *Meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(o...)
	m.made(Instrument{name, "histogram", c.Unit(), c.Description()})
	return histogram{m: m, name: name}, nil
}

type (
	observableCounter struct {
		noop.Int64ObservableCounter
		name string
	}
	upDownCounter struct {
		noop.Int64ObservableUpDownCounter
		name string
	}
	gauge struct {
		noop.Int64ObservableGauge
		name string
	}
	floatGauge struct {
		noop.Float64ObservableGauge
		name string
	}
)

func (i observableCounter) named() string { return i.name }
func (i upDownCounter) named() string     { return i.name }
func (i gauge) named() string             { return i.name }
func (i floatGauge) named() string        { return i.name }

func (m *Meter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	c := metric.NewInt64ObservableCounterConfig(o...)
	m.made(Instrument{name, "counter", c.Unit(), c.Description()})
	return observableCounter{name: name}, nil
}

func (m *Meter) Int64ObservableUpDownCounter(
	name string, o ...metric.Int64ObservableUpDownCounterOption,
) (metric.Int64ObservableUpDownCounter, error) {
	c := metric.NewInt64ObservableUpDownCounterConfig(o...)
	m.made(Instrument{name, "updowncounter", c.Unit(), c.Description()})
	return upDownCounter{name: name}, nil
}

func (m *Meter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	c := metric.NewInt64ObservableGaugeConfig(o...)
	m.made(Instrument{name, "gauge", c.Unit(), c.Description()})
	return gauge{name: name}, nil
}

func (m *Meter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	c := metric.NewFloat64ObservableGaugeConfig(o...)
	m.made(Instrument{name, "gauge", c.Unit(), c.Description()})
	return floatGauge{name: name}, nil
}

func (m *Meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &registration{m: m}
	if m.callbacks == nil {
		m.callbacks = map[*registration]metric.Callback{}
	}
	m.callbacks[r] = f
	return r, nil
}

type observer struct {
	noop.Observer
	values map[string]float64
}

func (o observer) ObserveInt64(i metric.Int64Observable, n int64, opts ...metric.ObserveOption) {
	o.values[Key(i.(interface{ named() string }).named(), metric.NewObserveConfig(opts).Attributes())] += float64(n)
}

func (o observer) ObserveFloat64(i metric.Float64Observable, n float64, opts ...metric.ObserveOption) {
	o.values[Key(i.(interface{ named() string }).named(), metric.NewObserveConfig(opts).Attributes())] += n
}
