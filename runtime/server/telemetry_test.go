package server

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/otelevents"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

const ofE = "mcp.events.type=e"

// What a server counts of emits, polls and streams; names that callers choose are no attributes.
func TestServerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metertest.Meter{}
		s := newServer(t, Options{Operators: operators.New(), Telemetry: m.Recorder(nil)})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "").Cursor
		emit(t, e, incident{ID: "a"})
		emit(t, e, incident{ID: "a"})
		if err := e.Emit(t.Context(), incident{ID: "a", Severity: "P1"}, events.WithID("a")); err == nil {
			t.Error("an id was reused")
		}
		pollFrom(t, s, start, "")
		if _, err := call(s, "", wire.MethodPoll, `{"name":"chosen by the caller","cursor":null}`); err == nil {
			t.Error("an unknown type was polled")
		}
		st := stream(t, s, `{"name":"e","cursor":"`+*start+`"}`)
		synctest.Wait()
		held := make(chan struct{})
		go func() {
			defer close(held)
			pollFrom(t, s, pollFrom(t, s, nil, "").Cursor, `,"timeoutMs":20000`)
		}()
		time.Sleep(10 * time.Second)
		observed := m.Observed(t)
		for key, want := range map[string]float64{
			"mcp.events.log.appended " + ofE: 1,
			"mcp.events.poll.held " + ofE:    1,
			"mcp.events.poll.leases " + ofE:  1,
			"mcp.events.stream.open " + ofE:  1,
			"mcp.events.stream.lag " + ofE:   0,
		} {
			if got, ok := observed[key]; !ok || got != want {
				t.Errorf("%s is %v, want %v of %v", key, got, want, observed)
			}
		}
		<-held
		time.Sleep(11 * time.Second) // the second heartbeat
		st.cancel()
		<-st.done
		observed = m.Observed(t)
		if observed["mcp.events.poll.held "+ofE] != 0 || observed["mcp.events.stream.open "+ofE] != 0 {
			t.Errorf("%v", observed)
		}
		got := m.Counted()
		for key, want := range map[string]int64{
			"mcp.events.emit.calls mcp.events.outcome=appended," + ofE:                    1,
			"mcp.events.emit.calls mcp.events.outcome=repeated," + ofE:                    1,
			"mcp.events.emit.calls error.type=id_reused,mcp.events.outcome=failed," + ofE: 1,
			"mcp.events.poll.answers mcp.events.outcome=events," + ofE:                    1,
			"mcp.events.poll.answers mcp.events.outcome=empty," + ofE:                     3,
			"mcp.events.poll.answers error.type=NotFound,mcp.events.outcome=failed":       1,
			"mcp.events.stream.frames mcp.events.frame=event," + ofE:                      1,
			"mcp.events.stream.frames mcp.events.frame=control," + ofE:                    3,
		} {
			if got[key] != want {
				t.Errorf("%s is %d, want %d of %v", key, got[key], want, got)
			}
			delete(got, key)
		}
		if len(got) > 0 {
			t.Errorf("also counted: %v", got)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := m.Callbacks(); n != 0 {
			t.Errorf("%d callbacks outlive the server", n)
		}
	})
}

// A stream whose client does not read falls behind, which its lag tells, and the list of connections.
func TestStreamLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metertest.Meter{}
		s := newServer(t, Options{Operators: operators.New(), Telemetry: m.Recorder(nil)})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		opened, rerr := openStream(s, "", `{"name":"e","cursor":null}`)
		if rerr != nil {
			t.Fatal(rerr)
		}
		reads := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		c := &recorder{id: streamID, gate: func(n int, _ []frame.Frame) error {
			if n > 0 {
				<-reads
			}
			return nil
		}}
		go func() {
			defer close(done)
			opened.Run(ctx, c)
		}()
		synctest.Wait()
		lag := func() float64 {
			synctest.Wait()
			n := m.Observed(t)["mcp.events.stream.lag "+ofE]
			if all, _ := s.Admin().Connections(t.Context()); len(all) != 1 || all[0].Behind == nil || float64(*all[0].Behind) != n {
				t.Errorf("connections %+v, lag %v", all, n)
			}
			return n
		}
		if n := lag(); n != 0 {
			t.Errorf("lag %v while it waits", n)
		}
		for _, id := range []string{"a", "b", "c"} {
			emit(t, e, incident{ID: id})
			synctest.Wait() // a is being written
		}
		if n := lag(); n != 3 {
			t.Errorf("lag %v", n)
		}
		reads <- struct{}{}
		if n := lag(); n != 2 {
			t.Errorf("lag %v after one was written", n)
		}
		close(reads)
		if n := lag(); n != 0 {
			t.Errorf("lag %v after all", n)
		}
		cancel()
		<-done
	})
}

// A poller is behind by what came since its last poll.
func TestPollerBehind(t *testing.T) {
	s := newServer(t, Options{Operators: operators.New()})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	behind := func() int64 {
		t.Helper()
		all, _ := s.Admin().Connections(t.Context())
		if len(all) != 1 || all[0].Behind == nil {
			t.Fatalf("%+v", all)
		}
		return *all[0].Behind
	}
	emit(t, e, incident{ID: "before"})
	r := pollFrom(t, s, nil, "")
	if n := behind(); n != 0 {
		t.Errorf("%d after the first poll", n)
	}
	emit(t, e, incident{ID: "a"})
	emit(t, e, incident{ID: "b"})
	if n := behind(); n != 2 {
		t.Errorf("%d of 2", n)
	}
	pollFrom(t, s, r.Cursor, `,"maxEvents":1`)
	if n := behind(); n != 1 {
		t.Errorf("%d after a page of one", n)
	}
}

// A call of a tool that waits counts as polls that wait, while it does.
func TestWaitToolMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metertest.Meter{}
		s := newServer(t, Options{Operators: operators.New(), Telemetry: m.Recorder(nil)})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		register(t, s, "f", Hooks[filterArgs, incident]{})
		held := func() float64 {
			o := m.Observed(t)
			return o["mcp.events.poll.held "+ofE] + o["mcp.events.poll.held mcp.events.type=f"]
		}
		done := make(chan waited)
		go func() { done <- mustWait(t, s, WaitTool, waitArgs("", 20, 1, "e", "f")) }()
		time.Sleep(5 * time.Second)
		if n := held(); n != 2 {
			t.Errorf("%v polls wait", n)
		}
		emit(t, e, incident{ID: "a"})
		emit(t, e, incident{ID: "b"})
		if got := <-done; len(got.Events) != 1 {
			t.Errorf("%+v", got)
		}
		if n := held(); n != 0 {
			t.Errorf("%v polls wait after the answer", n)
		}
		open, _ := s.Admin().Connections(context.Background())
		for _, c := range open {
			if want := int64(map[string]int{"e": 1, "f": 0}[c.Event]); c.Behind == nil || *c.Behind != want {
				t.Errorf("%+v, want %d behind", c, want)
			}
		}
	})
}

// A durable store's answers are timed by what it was asked for; a memory store's are not.
func TestStoreDuration(t *testing.T) {
	for _, durable := range []bool{false, true} {
		m := &metertest.Meter{}
		o := Options{Telemetry: m.Recorder(nil)}
		if durable {
			db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "e.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			o.Store = db
		}
		s := newServer(t, o)
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "").Cursor
		emit(t, e, incident{ID: "a"})
		pollFrom(t, s, start, "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Emit(ctx, incident{ID: "b"}); err == nil {
			t.Error("a cancelled emit was appended")
		}
		got := m.Counted()
		const name = "mcp.events.store.duration "
		ok := got[name+"mcp.events.operation=append"] == 1 && got[name+"mcp.events.operation=read"] > 0 &&
			got[name+"error.type=cancelled,mcp.events.operation=append"] == 1
		if ok != durable {
			t.Errorf("durable %v: %v", durable, got)
		}
	}
}

// On a shared store the process's lease and shards show, and how old its last look at each log is. So do the
// generation, and what waits in the outbox (K10).
func TestSharedMetrics(t *testing.T) {
	m := &metertest.Meter{}
	schema := pgtest.Schema(t)
	s := newMember(t, schema, postgres.Options{}, Options{Telemetry: m.Recorder(nil)})
	register(t, s.Server, "e", Hooks[filterArgs, incident]{})
	waitUntil(t, "its duties are its own", func() bool {
		o := m.Observed(t)
		return o["mcp.events.lease.held"] == 1 && o["mcp.events.shard.owned mcp.events.work=/outbox"] == 1 &&
			o["mcp.events.shard.owned mcp.events.work=/retention"] == 1
	})
	if age, ok := m.Observed(t)["mcp.events.tail.delay "+ofE]; !ok || age < 0 || age > 30 {
		t.Errorf("tail delay %v, %v", age, ok)
	}
	for name, want := range map[string]float64{"control.delay": 30, "outbox.age": 0, "store.generation": 1} {
		if v, ok := m.Observed(t)["mcp.events."+name]; !ok || v < 0 || v > want {
			t.Errorf("%s is %v, %v", name, v, ok)
		}
	}
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+schema+".logs WHERE name = 'e' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+schema+`.outbox (log, event_id, timestamp, data, once, above, at)
		VALUES ('e', 'x', '2026-01-01T00:00:00Z', '{"id":"x"}', false, 0, now() - interval '1 hour')`)
	waitUntil(t, "it waits", func() bool { return m.Observed(t)["mcp.events.outbox.age"] >= 3600 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it is moved", func() bool { return m.Observed(t)["mcp.events.outbox.age"] == 0 })
	s.processes().(*cluster.Many).Crash()
	waitUntil(t, "the lease is lost", func() bool { return m.Observed(t)["mcp.events.lease.held"] == 0 })
}

// The trace context of Emit's context goes with the occurrence, when that is asked for, and baggage never
// does; what the author set stays.
func TestTraceContext(t *testing.T) {
	const parent = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"
	state, err := trace.ParseTraceState("vendor=a")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		SpanID: trace.SpanID{17, 18, 19, 20, 21, 22, 23, 24}, TraceFlags: trace.FlagsSampled, TraceState: state})
	member, err := baggage.NewMember("user", "of-the-baggage")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	traced := baggage.ContextWithBaggage(trace.ContextWithSpanContext(t.Context(), span), bag)
	for _, c := range []struct {
		name string
		on   bool
		ctx  context.Context
		meta map[string]any
		want string
	}{
		{"off", false, traced, nil, ``},
		{"no trace", true, t.Context(), nil, ``},
		{"on", true, traced, nil, `{"traceparent":"` + parent + `","tracestate":"vendor=a"}`},
		{"beside the author's", true, traced, map[string]any{"k": 1}, `{"k":1,"traceparent":"` + parent + `","tracestate":"vendor=a"}`},
		{"the author's own", true, traced, map[string]any{"traceparent": "mine"}, `{"traceparent":"mine"}`},
	} {
		bubble(t, func(o *Options) {
			if c.on {
				o.TraceContext = otelevents.TraceContext
			}
		}, func(t *testing.T, w *world) {
			e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.subscribe("alice", params(plain, secretA, ""))
			start := pollFrom(t, w.Server, nil, "").Cursor
			st := stream(t, w.Server, `{"name":"e","cursor":null}`)
			synctest.Wait()
			if err := e.Emit(c.ctx, incident{ID: "a"}, events.WithMeta(c.meta)); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
			for way, got := range map[string]string{
				"poll":    string(pollFrom(t, w.Server, start, "").Events[0]),
				"push":    st.frames()[1].raw,
				"webhook": string(w.r.last().raw),
			} {
				if strings.Contains(got, "baggage") {
					t.Errorf("%s, %s: baggage goes to strangers: %s", c.name, way, got)
				}
				want := strings.Trim(c.want, "{}")
				if c.want == "" && strings.Contains(got, "traceparent") || !strings.Contains(got, want) {
					t.Errorf("%s, %s: %s", c.name, way, got)
				}
			}
		})
	}
}

// An occurrence that fits without the trace context fits with the option on, too.
func TestTraceContextNeverRefuses(t *testing.T) {
	bubble(t, func(o *Options) { o.TraceContext = otelevents.TraceContext }, func(t *testing.T, w *world) {
		schema := json.RawMessage(`{"type":"object"}`)
		e, err := Register(w.Server, events.Type[filterArgs, map[string]string]{Info: events.Info{Name: "large", Description: "Large.",
			InputSchema: schema, PayloadSchema: schema}}, Hooks[filterArgs, map[string]string]{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
		for _, n := range []int{wire.MaxPayload - 8, wire.MaxPayload - 200} {
			if err := e.Emit(ctx, map[string]string{"x": strings.Repeat("x", n)}); err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
		if err := e.Emit(ctx, map[string]string{"x": strings.Repeat("x", wire.MaxPayload)}); err == nil {
			t.Error("too large without it")
		}
	})
}
