package delivery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A meter keeps what is measured, by instrument and attributes.
type meter struct {
	noop.Meter
	mu       sync.Mutex
	values   map[string]int64
	callback metric.Callback
}

func (m *meter) add(name string, set attribute.Set, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name+" "+set.Encoded(attribute.DefaultEncoder())] += n
}

type counter struct {
	noop.Int64Counter
	m    *meter
	name string
}

func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	cfg := metric.NewAddConfig(o)
	c.m.add(c.name, cfg.Attributes(), n)
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{m: m, name: name}, nil
}

type histogram struct {
	noop.Float64Histogram
	m    *meter
	name string
}

func (h histogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	cfg := metric.NewRecordConfig(o)
	h.m.add(h.name, cfg.Attributes(), 1)
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{m: m, name: name}, nil
}

type gauge struct {
	noop.Int64ObservableGauge
	name string
}

func (m *meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return gauge{name: name}, nil
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return noop.Registration{}, nil
}

type observer struct {
	noop.Observer
	values map[string]int64
}

func (o observer) ObserveInt64(g metric.Int64Observable, n int64, opts ...metric.ObserveOption) {
	cfg := metric.NewObserveConfig(opts)
	set := cfg.Attributes()
	o.values[strings.TrimSpace(g.(gauge).name+" "+set.Encoded(attribute.DefaultEncoder()))] = n
}

func (m *meter) gauges(t *testing.T) map[string]int64 {
	o := observer{values: map[string]int64{}}
	if err := m.callback(t.Context(), o); err != nil {
		t.Error(err)
	}
	return o.values
}

// A tracer keeps the spans' names and attributes.
type tracer struct {
	tracenoop.Tracer
	mu    sync.Mutex
	spans []string
}

type span struct {
	tracenoop.Span
	r *tracer
	i int
}

func (r *tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, name)
	return ctx, span{r: r, i: len(r.spans) - 1}
}

func (s span) IsRecording() bool { return true }

func (s span) SetAttributes(kv ...attribute.KeyValue) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.spans[s.i] += fmt.Sprint(kv)
}

// TestTelemetry measures deliveries by outcome, latency, attempts under way, suspensions and lag,
// and has a span for each attempt; none of it names an endpoint.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := &meter{values: map[string]int64{}}, &tracer{}
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			time.Sleep(100 * time.Millisecond)
			if g.sub == "sub_bad" {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Meter: m, Tracer: r, Schedule: []time.Duration{0, time.Second}, Suspend: Suspension{Min: 4, Rate: 0.5}})
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		top.track.Ready()
		top.join(t, e, record("sub_good"), false)
		top.join(t, e, record("sub_bad"), false)
		top.emit(t, "evt_1")
		synctest.Wait()
		if g := m.gauges(t); g["mcpe.webhook.in_flight"] != 2 || g["mcpe.webhook.lag mcpe.event=test"] != 1 || g["mcpe.webhook.subscriptions"] != 2 {
			t.Errorf("%v", g)
		}
		time.Sleep(time.Minute)
		if g := m.gauges(t); g["mcpe.webhook.in_flight"] != 0 || g["mcpe.webhook.lag mcpe.event=test"] != 0 || g["mcpe.webhook.suspended"] != 0 {
			t.Errorf("%v", g)
		}
		top.emit(t, "evt_2")
		time.Sleep(time.Minute)
		if g := m.gauges(t); g["mcpe.webhook.suspended"] != 1 {
			t.Errorf("%v", g)
		}
		shutdown(t, e)
		m.mu.Lock()
		defer m.mu.Unlock()
		for key, want := range map[string]int64{
			"mcpe.webhook.deliveries error.type=,mcpe.event=test,mcpe.outcome=acknowledged":      2,
			"mcpe.webhook.deliveries error.type=http_5xx,mcpe.event=test,mcpe.outcome=failed":    4,
			"mcpe.webhook.deliveries error.type=http_5xx,mcpe.event=test,mcpe.outcome=abandoned": 2,
			"mcpe.webhook.attempt.duration error.type=":                                          2,
			"mcpe.webhook.attempt.duration error.type=http_5xx":                                  4,
		} {
			if m.values[key] != want {
				t.Errorf("%s is %d, want %d of %v", key, m.values[key], want, m.values)
			}
		}
		if len(r.spans) != 6 || !strings.Contains(r.spans[0], "sub_") || slices.ContainsFunc(r.spans, func(s string) bool { return strings.Contains(s, "receiver.test") }) {
			t.Errorf("%q", r.spans)
		}
	})
}
