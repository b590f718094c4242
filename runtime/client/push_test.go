package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// CLI-2, CLI-4: one stream's events arrive in order, typed, on every carrier; ending the
// application's context aborts the stream on the server.
func TestCLI4Push(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			for i := range 100 {
				st.event(fmt.Sprint("e", i), fmt.Sprint("c", i+1))
			}
			return hold(st)
		}
		cl := connect(t, f, c, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		type payload struct {
			N string `json:"n"`
		}
		s, err := Subscribe(ctx, cl, events.Type[map[string]string, payload]{Info: events.Info{Name: "tick"}}, map[string]string{"a": "b"})
		if err != nil {
			t.Fatal(err)
		}
		if s.Subscription().Mode() != wire.ModePush {
			t.Errorf("mode %q", s.Subscription().Mode())
		}
		n := 0
		for ev, err := range s.Events() {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				break
			}
			want := events.Occurrence{ID: fmt.Sprint("e", n), Name: "tick", Cursor: fmt.Sprint("c", n+1)}
			if ev.ID != want.ID || ev.Name != want.Name || ev.Cursor != want.Cursor || ev.Timestamp.String() != "2026-11-20T08:00:00Z" || ev.Arguments["a"] != "b" || ev.Data.N != ev.ID {
				t.Fatalf("item %d: %+v", n, ev)
			}
			if n++; n == 100 {
				cancel()
			}
		}
		if n != 100 {
			t.Errorf("%d events", n)
		}
		synctest.Wait()
		if f.streams() != 0 {
			t.Error("the stream is still open on the server")
		}
		if len(cl.Subscriptions()) != 0 {
			t.Error("still in the registry")
		}
		cancel()
	})
}

// A stream that is accepted was heard, also one that has brought nothing yet.
func TestStatusOfAnAcceptedStream(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			return hold(st)
		}
		s := subscribe(t, connect(t, f, c, Options{}))
		if st := s.Subscription().Status(); st.LastFrame.IsZero() {
			t.Errorf("status %+v", st)
		}
	})
}

// CLI-4: a stream without any frame for two heartbeats is dead; a heartbeat keeps it alive, an
// event stream of any length too. The next one resumes at the last heartbeat's cursor.
func TestCLI4Silence(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		start := time.Now()
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			if len(f.cursors()) > 1 {
				st.active(*st.p.Cursor)
				st.event("e1", "c9")
				return hold(st)
			}
			st.active("c0")
			for i := range 5 {
				time.Sleep(59 * time.Second)
				st.heartbeat(fmt.Sprint("h", i))
			}
			return hold(st)
		}
		cl := connect(t, f, c, Options{})
		s := subscribe(t, cl)
		read(t, s).want("e1")
		if got := time.Since(start); got < 355*time.Second || got > 357*time.Second {
			t.Errorf("reconnected after %v", got)
		}
		if got := f.cursors(); !slices.Equal(got, []string{"null", "h4"}) {
			t.Errorf("cursors %v", got)
		}
	})
}

// CLI-4: a final result, a close without one and an error in the middle all mean another stream
// from the last cursor, with backoff, and nothing is lost or doubled.
func TestCLI4Reconnect(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			n := len(f.cursors())
			cursor := "c0"
			if st.p.Cursor != nil {
				cursor = *st.p.Cursor
			}
			st.active(cursor)
			st.event(fmt.Sprint("e", n-1), fmt.Sprint("c", n-1)) // redelivered
			st.event(fmt.Sprint("e", n), fmt.Sprint("c", n))
			switch {
			case n == 4:
				return hold(st)
			case n == 1:
				return empty, nil
			case n == 2 && c.http:
				return nil, nil // the body ends
			}
			return nil, f.err(wire.Internal, "")
		}
		cl := connect(t, f, c, Options{})
		start := time.Now()
		s := subscribe(t, cl)
		r := read(t, s)
		got := []string{}
		for range 5 {
			w := r.word()
			if w == "error" {
				var rec *RecoverableError
				if !errors.As(r.err, &rec) {
					t.Fatal(r.err)
				}
				w = r.word()
				if w == "error" {
					w = r.word()
				}
			}
			got = append(got, w)
		}
		if !slices.Equal(got, []string{"e0", "e1", "e2", "e3", "e4"}) {
			t.Errorf("got %v", got)
		}
		if got := f.cursors(); !slices.Equal(got, []string{"null", "c1", "c2", "c3"}) {
			t.Errorf("cursors %v", got)
		}
		// The first comes within 250 ms, the others after half a second to one.
		if d := time.Since(start); d < 1100*time.Millisecond || d > 2500*time.Millisecond {
			t.Errorf("three reconnections took %v", d)
		}
		if st := s.Subscription().Status(); st.Duplicates != 3 || st.Received != 5 {
			t.Errorf("status %+v", st)
		}
	})
}

// CLI-2: a gap is an item, in the middle of a stream too (PUSH-7); a stream of a type without
// replay that had to be opened again is one as well.
func TestCLI2Gap(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.truncated("c0")
			st.event("e1", "c1")
			st.truncated("c5")
			st.event("e6", "c6")
			return hold(st)
		}
		cl := connect(t, f, c, Options{})
		s := subscribe(t, cl, WithCursor("old"))
		read(t, s).want("gap:c0", "e1", "gap:c5", "e6")
		if s.Subscription().Cursor() != "c6" {
			t.Errorf("cursor %q", s.Subscription().Cursor())
		}
		s.Close()

		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("")
			if len(f.cursors()) == 2 {
				st.event("n1", "")
				return empty, nil
			}
			st.event("n2", "")
			return hold(st)
		}
		s = subscribe(t, cl)
		read(t, s).want("n1", "gap:", "n2")
	})
}

// CLI-7: terminated with NotFound or Unsupported reads the list again and goes on if that is still
// possible, in another mode if need be.
func TestCLI7Reselect(t *testing.T) {
	for _, codes := range []wire.Dialect{wire.Sketch, wire.SEP} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.codes = codes
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				switch len(f.cursors()) {
				case 1:
					st.event("e1", "c1")
					st.terminated(f.err(wire.Unsupported, `{"feature":"payloadSchema","reason":"schema_changed"}`))
					return empty, nil
				}
				st.event("e2", "c2")
				st.terminated(f.err(wire.Unsupported, `{"feature":"deliveryMode","value":"push"}`))
				return hold(st)
			}
			f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
				if p.Cursor == nil || *p.Cursor != "c2" {
					t.Errorf("polled from %v", p.Cursor)
				}
				return json.RawMessage(`{"events":[` + eventJSON("e3", "-") + `],"cursor":"c3","truncated":false,"hasMore":false,"nextPollMs":1000000}`), nil
			}
			cl := connect(t, f, c, Options{})
			s := subscribe(t, cl)
			read(t, s).want("e1", "e2", "e3")
			if s.Subscription().Mode() != wire.ModePoll {
				t.Errorf("mode %q", s.Subscription().Mode())
			}
			if n := len(f.sent(wire.MethodList)); n != 3 {
				t.Errorf("%d lists", n)
			}
		})
	}
}

// CLI-7: when the type is gone from the list, and for any other code, the subscription stops and
// the reason is reported, typed, in both families of codes (D2).
func TestCLI7Stop(t *testing.T) {
	reasons := map[wire.Kind]error{wire.NotFound: events.ErrNotFound, wire.Forbidden: events.ErrForbidden,
		wire.ResourceExhausted: events.ErrResourceExhausted}
	for kind, want := range reasons {
		for _, codes := range []wire.Dialect{wire.Sketch, wire.SEP} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				f := newFake(c.legacy)
				f.codes = codes
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					f.list = func() []wire.Descriptor { return nil }
					st.active("c0")
					st.event("e1", "c1")
					st.terminated(f.err(kind, `{"kind":"event"}`))
					st.event("e2", "c2")
					return hold(st)
				}
				cl := connect(t, f, c, Options{})
				r := read(t, subscribe(t, cl))
				r.want("e1", "error")
				var terminated *TerminatedError
				if !errors.As(r.err, &terminated) || !errors.Is(r.err, want) {
					t.Errorf("%v: %v", kind, r.err)
				}
				r.want("end")
				synctest.Wait()
				if len(cl.Subscriptions()) != 0 || f.streams() != 0 {
					t.Error("not stopped")
				}
			})
		}
	}
}

// D2, ERR-2: a refusal before the stream is the error of Subscribe, in both families of codes.
func TestD2Refusals(t *testing.T) {
	for kind, want := range map[wire.Kind]error{wire.NotFound: events.ErrNotFound, wire.Forbidden: events.ErrForbidden,
		wire.InvalidParams: events.ErrInvalidParams, wire.ResourceExhausted: events.ErrResourceExhausted,
		wire.Unsupported: events.ErrUnsupported, wire.UpstreamError: events.ErrUpstream} {
		for _, codes := range []wire.Dialect{wire.Sketch, wire.SEP} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				f := newFake(c.legacy)
				f.codes = codes
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { return nil, f.err(kind, `{"x":1}`) }
				cl := connect(t, f, c, Options{})
				_, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
				var e *events.Error
				if !errors.Is(err, want) || !errors.As(err, &e) || string(e.Data) != `{"x":1}` {
					t.Errorf("%v in %v: %v", kind, codes, err)
				}
				if len(cl.Subscriptions()) != 0 {
					t.Error("left in the registry")
				}
				// The session survives.
				if _, err := cl.List(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// PUSH-5: notifications/events/error is an item, and the stream goes on.
func TestRecoverableError(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.send(wire.NotificationError, `{"error":{"code":-32603,"message":"UpstreamError","data":{"reason":"down"}}}`)
			st.send(wire.NotificationPrefix+"future", `{"x":1}`)
			st.send(wire.NotificationEvent, `{"eventId":7}`)
			st.event("e1", "c1")
			return hold(st)
		}
		r := read(t, subscribe(t, connect(t, f, c, Options{})))
		r.want("error")
		var rec *RecoverableError
		if !errors.As(r.err, &rec) || !errors.Is(r.err, events.ErrUpstream) || !strings.Contains(r.err.Error(), "down") {
			t.Errorf("%v", r.err)
		}
		r.want("error")
		var pe *PayloadError
		if !errors.As(r.err, &pe) || !strings.HasPrefix(string(pe.Occurrence.Raw), `{"eventId":7`) {
			t.Errorf("%v", r.err)
		}
		r.want("e1")
	})
}

// CLI-4: a slow subscriber never holds up another one. On a shared read loop it is dropped to its
// cursor; over HTTP its own stream waits. Either way it misses nothing.
func TestSlowSubscriber(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		const n = 200 // more than the buffer and what is on the way hold
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			from := 0
			if st.p.Cursor != nil {
				fmt.Sscanf(*st.p.Cursor, "c%d", &from)
			}
			st.active(fmt.Sprint("c", from))
			for i := from; i < n; i++ {
				if st.ctx.Err() != nil || st.event(fmt.Sprint("e", i), fmt.Sprint("c", i+1)) != nil {
					return nil, nil
				}
			}
			return hold(st)
		}
		cl := connect(t, f, c, Options{Buffer: 64})
		slow := subscribe(t, cl)
		fast := read(t, subscribe(t, cl))
		for i := range n {
			fast.want(fmt.Sprint("e", i))
		}
		time.Sleep(time.Hour)
		r := read(t, slow)
		for i := range n {
			r.want(fmt.Sprint("e", i))
		}
		if n := len(f.cursors()); !c.http && n < 3 {
			t.Errorf("%d streams: the slow one was not dropped to its cursor", n)
		}
	})
}

// A frame for a subscription that ended, or for none, harms nobody.
func TestStrayFrames(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			for _, id := range []string{`"8"`, `77`, `null`, `{}`} {
				if !c.http {
					st.raw(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"x","name":"tick","data":{},"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
				}
			}
			st.raw(`{"jsonrpc":"2.0","method":"notifications/unheard/of","params":{}}`)
			st.active("c0")
			st.event("e1", "c1")
			return hold(st)
		}
		read(t, subscribe(t, connect(t, f, c, Options{}))).want("e1")
	})
}
