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
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

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
	s := span{r: r, i: len(r.spans) - 1}
	return trace.ContextWithSpan(ctx, s), s
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
		m, r := &metertest.Meter{}, &tracer{}
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			time.Sleep(100 * time.Millisecond)
			if g.sub == "sub_bad" {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Telemetry: m.Recorder(r), Schedule: []time.Duration{0, time.Second}, Suspend: Suspension{Min: 4, Rate: 0.5, Span: -1}})
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		top.track.Ready()
		answered := func(id string) *Handle {
			r := record(id)
			r.Progress.Open = true
			h, _ := top.attend(t, e, Entry{Subscription: r, Answered: time.Millisecond})
			return h
		}
		answered("sub_good")
		bad := answered("sub_bad")
		top.emit(t, "evt_1")
		const (
			inFlight  = "mcp.events.webhook.attempt.in_flight"
			lag       = "mcp.events.webhook.lag mcp.events.type=test"
			active    = "mcp.events.webhook.subscriptions mcp.events.state=active"
			suspended = "mcp.events.webhook.subscriptions mcp.events.state=suspended"
			paused    = "mcp.events.webhook.subscriptions mcp.events.state=paused"
		)
		synctest.Wait()
		if g := m.Observed(t); g[inFlight] != 2 || g[lag] != 1 || g[active] != 2 {
			t.Errorf("%v", g)
		}
		time.Sleep(time.Minute)
		if g := m.Observed(t); g[inFlight] != 0 || g[lag] != 0 || g[suspended] != 0 {
			t.Errorf("%v", g)
		}
		top.emit(t, "evt_2")
		time.Sleep(time.Minute)
		if g := m.Observed(t); g[suspended] != 1 || g[active] != 1 {
			t.Errorf("%v", g)
		}
		bad.Pause(time.Now())
		if g := m.Observed(t); g[paused] != 1 || g[suspended] != 0 {
			t.Errorf("%v", g)
		}
		shutdown(t, e)
		if n := m.Callbacks(); n != 0 {
			t.Errorf("%d callbacks are left", n)
		}
		got := m.Counted()
		for key, want := range map[string]int64{
			"mcp.events.webhook.deliveries mcp.events.outcome=acknowledged,mcp.events.type=test":                                       2,
			"mcp.events.webhook.deliveries error.type=http_5xx,mcp.events.outcome=abandoned,mcp.events.type=test":                      2,
			"mcp.events.webhook.attempts mcp.events.envelope=event,mcp.events.outcome=accepted,mcp.events.type=test":                   2,
			"mcp.events.webhook.attempts error.type=http_5xx,mcp.events.envelope=event,mcp.events.outcome=failed,mcp.events.type=test": 4,
			"mcp.events.webhook.attempt.duration":                     2,
			"mcp.events.webhook.attempt.duration error.type=http_5xx": 4,
		} {
			if got[key] != want {
				t.Errorf("%s is %d, want %d of %v", key, got[key], want, got)
			}
			delete(got, key)
		}
		if len(got) > 0 {
			t.Errorf("also counted: %v", got)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.spans) != 6 || !strings.Contains(r.spans[0], "sub_") || slices.ContainsFunc(r.spans, func(s string) bool { return strings.Contains(s, "receiver.test") }) {
			t.Errorf("%q", r.spans)
		}
	})
}
