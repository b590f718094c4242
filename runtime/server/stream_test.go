package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// PUSH-1, PUSH-2, PUSH-3, OCC-3: the frames of a stream, byte for byte.
func TestStreamTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, id := range []string{`8`, `"a\"b"`, `9007199254740993`} {
			s := newServer(t, Options{EchoFingerprint: true})
			typ := incidentType("e")
			typ.Fingerprint = "f00d"
			e, err := Register(s, typ, Hooks[filterArgs, incident]{})
			if err != nil {
				t.Fatal(err)
			}
			r := streamRequest("", `{"name":"e","id":"ignored (CAP-4)"}`)
			r.ID = json.RawMessage(id)
			st, err := opened(s.inside().Open(context.Background(), r))
			if err != nil {
				t.Fatal(err)
			}
			l := runStreamAs(st, id)
			synctest.Wait()
			emit(t, e, incident{ID: "evt_1", Severity: "P1"}, events.WithTimestamp(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)),
				events.WithMeta(map[string]any{"k": 1, wire.MetaSubscriptionID: "forged"}))
			synctest.Wait()
			st.End()
			<-l.done
			f := l.frames()
			if l.bad != nil || len(f) != 2 {
				t.Fatalf("%v, %d frames", l.bad, len(f))
			}
			tail := `"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
			want := `{"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":"` + *f[0].params.Cursor + `","truncated":false,"_meta":{` + tail
			if f[0].raw != want {
				t.Errorf("active\ngot  %s\nwant %s", f[0].raw, want)
			}
			want = `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"evt_1","name":"e","timestamp":"2026-11-20T08:00:00Z",` +
				`"data":{"id":"evt_1","severity":"P1"},"cursor":"` + *f[1].params.Cursor + `","_meta":{"k":1,"io.github.mcpe-gen/fingerprint":"f00d",` + tail
			if f[1].raw != want {
				t.Errorf("event\ngot  %s\nwant %s", f[1].raw, want)
			}
			if want := `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`; string(l.final) != want || l.err != nil {
				t.Errorf("D9: final %s, %v", l.final, l.err)
			}
		}
	})
}

// Trap 3 is carried by Server.open, which asks for the head before anything else, and by topic.Reader.ParkAt, which
// looks at it again under the lock.
//
// Trap 3, PUSH-1: emit at every interleaving of opening, replay and live; active comes first,
// nothing is lost or doubled.
func TestReplayToLive(t *testing.T) {
	const total = 10
	for before := 0; before <= total; before++ {
		for opened := before; opened <= total; opened += 3 {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Options{})
				e := register(t, s, "e", Hooks[filterArgs, incident]{})
				c := pollFrom(t, s, nil, "").Cursor
				n := 0
				upTo := func(m int) {
					for ; n < m; n++ {
						emit(t, e, incident{ID: fmt.Sprint("x", n)})
					}
				}
				upTo(before)
				st, rerr := openStream(s, "", fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
				if rerr != nil {
					t.Fatal(rerr)
				}
				upTo(opened)
				l := runStream(st)
				upTo(total)
				synctest.Wait()
				l.cancel()
				<-l.done
				want := []string{"active"}
				for i := range total {
					want = append(want, fmt.Sprint("event x", i))
				}
				wantStrings(t, fmt.Sprint(before, "/", opened), l.shorts(), want...)
				if l.frames()[0].params.Truncated || *l.frames()[0].params.Cursor != *c {
					t.Fatalf("active %s", l.frames()[0].raw)
				}
			})
		}
	}
}

// waitFor is for tests outside of a bubble: it yields until ok.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen")
		}
	}
}

// OCC-4, ERR-4: Transform gets a fresh copy per distinct arguments; a result that breaks the schema
// becomes events/error on the stream, is left out of a poll, and the author hears of it.
func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		var calls atomic.Int32
		e := register(t, s, "e", Hooks[filterArgs, incident]{Transform: func(_ context.Context, p *incident, a *filterArgs) error {
			calls.Add(1)
			if p.Secret == "" {
				t.Error("not a fresh copy")
			}
			switch {
			case p.ID == "panics":
				panic("secret panic")
			case p.ID == "fails":
				return errTest
			case p.ID == "typed":
				return events.Forbidden("not yours")
			case p.ID == "long":
				p.Secret = strings.Repeat("x", 21)
			case a.Redact:
				p.Secret = ""
			}
			return nil
		}})
		c := pollFrom(t, s, nil, "").Cursor
		plain, again := stream(t, s, `{"name":"e"}`), stream(t, s, `{"name":"e","arguments":{}}`)
		redact := stream(t, s, `{"name":"e","arguments":{"redact":true}}`)
		synctest.Wait()
		emit(t, e, incident{ID: "a", Secret: "s"})
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("Transform was called %d times for two distinct arguments", n)
		}
		for _, id := range []string{"long", "fails", "panics", "typed", "z"} {
			emit(t, e, incident{ID: id, Secret: "s"})
		}
		synctest.Wait()
		wantStrings(t, "plain", plain.shorts(), "active", "event a", "error", "error", "error", "error", "event z")
		wantStrings(t, "again", again.ids(), plain.ids()...)
		if got := string(redact.frames()[1].params.Data); got != `{"id":"a"}` {
			t.Errorf("redacted: %s", got)
		}
		for i, f := range plain.frames()[2:6] {
			want := int64(-32603)
			if i == 3 {
				want = -32012
			}
			if f.params.Error.Code != want || strings.Contains(f.raw, "secret") {
				t.Errorf("%s", f.raw)
			}
		}
		r := pollFrom(t, s, c, "")
		wantStrings(t, "poll", r.ids(), "a", "z")
		if strings.Count(string(r.Events[0]), `"secret":"s"`) != 1 {
			t.Errorf("%s", r.Events[0])
		}
	})
}

// SRV-2: Match applies in poll and push, after x-match; its panic is an error of the stream.
func TestMatchHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{Match: func(_ context.Context, p *incident, a *filterArgs) bool {
			if p.Severity != "P1" {
				t.Error("asked for what x-match rules out")
			}
			if p.ID == "panics" {
				panic("secret")
			}
			return p.ID != "no"
		}})
		c := pollFrom(t, s, nil, "").Cursor
		l := stream(t, s, `{"name":"e","arguments":{"severity":"P1"}}`)
		synctest.Wait()
		for _, i := range []incident{{ID: "a", Severity: "P1"}, {ID: "b", Severity: "P2"}, {ID: "no", Severity: "P1"}, {ID: "panics", Severity: "P1"}, {ID: "c", Severity: "P1"}} {
			emit(t, e, i)
		}
		synctest.Wait()
		wantStrings(t, "stream", l.shorts(), "active", "event a", "error", "event c")
		wantStrings(t, "poll", pollFrom(t, s, c, `,"arguments":{"severity":"P1"}`).ids(), "a", "c")
	})
}

// SRV-2: a targeted occurrence reaches only its subscriptions, a reconnected stream and a later
// poll too; ids do not depend on the order of arguments.
func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		ann := streamAs(t, s, "ann", `{"name":"e","arguments":{"severity":"P1","tag":"x"}}`)
		bob := streamAs(t, s, "bob", `{"name":"e"}`)
		c := pollAs(t, s, "ann", `{"name":"e"}`).Cursor
		synctest.Wait()
		var push, polled string
		for _, sub := range s.Subscriptions() {
			if sub.Principal == "ann" && sub.Mode == "push" {
				push = sub.ID
			} else if sub.Principal == "ann" {
				polled = sub.ID
			}
		}
		for _, to := range [][]string{{push, polled}, {"sub_unknown"}, {}, nil} {
			if err := e.Emit(t.Context(), incident{ID: fmt.Sprint("x", len(to)), Severity: "P1", Tags: []string{"x"}}, events.To(to...)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(ann.ids()) != 1 || len(bob.ids()) != 0 {
			t.Fatalf("ann %v, bob %v", ann.ids(), bob.ids())
		}
		again := streamAs(t, s, "ann", fmt.Sprintf(`{"name":"e","arguments":{"tag":"x","severity":"P1"},"cursor":%q}`, *ann.frames()[0].params.Cursor))
		synctest.Wait()
		wantStrings(t, "reconnected", again.ids(), ann.ids()...)
		wantStrings(t, "polled", pollAs(t, s, "ann", fmt.Sprintf(`{"name":"e","cursor":%q}`, *c)).ids(), ann.ids()...)
		if r := pollAs(t, s, "bob", fmt.Sprintf(`{"name":"e","cursor":%q}`, *c)); len(r.Events) != 0 {
			t.Fatal("bob polled what was for ann")
		}
	})
}

// OCC-1, OCC-2, OCC-4: what Emit refuses reaches nobody.
func TestEmitRefuses(t *testing.T) {
	s := newServer(t, Options{MaxPayload: 200})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	c := pollFrom(t, s, nil, "").Cursor
	for _, tc := range []struct {
		i    incident
		o    events.EmitOption
		want error
	}{
		{incident{ID: "a", Secret: strings.Repeat("x", 21)}, events.WithID("a"), events.ErrInvalidPayload},
		{incident{ID: strings.Repeat("x", 300)}, events.WithID("a"), events.ErrTooLarge},
		{incident{ID: "\xff"}, events.WithID("a"), events.ErrInvalidPayload},
		{incident{ID: "a"}, events.WithID("a b"), events.ErrEventID},
		{incident{ID: "a"}, events.WithID(strings.Repeat("x", 257)), events.ErrEventID},
		{incident{ID: "a"}, events.WithMeta(map[string]any{"f": func() {}}), nil},
	} {
		err := e.Emit(t.Context(), tc.i, tc.o)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v", tc.i, err)
		}
	}
	if r := pollFrom(t, s, c, ""); len(r.Events) != 0 || *r.Cursor != *c {
		t.Fatalf("delivered %v", r.ids())
	}
	if err := e.Emit(t.Context(), incident{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if r := pollFrom(t, s, c, ""); len(r.ids()) != 1 || len(r.ids()[0]) != 36 || r.ids()[0][14] != '7' {
		t.Fatalf("OCC-2: generated id %v", r.ids())
	}
	s.Shutdown(t.Context())
	if err := e.Emit(t.Context(), incident{ID: "a"}); !errors.Is(err, events.ErrClosed) {
		t.Fatalf("SRV-6: %v", err)
	}
}

type carrierFunc func([]frame.Frame) error

func (f carrierFunc) Write(frames []frame.Frame) error { return f(frames) }
