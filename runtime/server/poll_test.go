package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// POLL-1, POLL-2, POLL-3, CUR-2, OCC-3, D3: bootstrap, then the events after the cursor.
func TestPoll(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	emit(t, e, incident{ID: "history"})
	first := pollFrom(t, s, nil, "")
	if len(first.Events) != 0 || first.Cursor == nil || *first.Truncated || *first.HasMore || *first.NextPollMs != 5000 || first.ResultType != "complete" {
		t.Fatalf("bootstrap = %+v", first)
	}
	emit(t, e, incident{ID: "a", Severity: "P1"}, events.WithTimestamp(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)), events.WithMeta(map[string]any{"k": "v"}))
	emit(t, e, incident{ID: "b"})
	second := pollFrom(t, s, first.Cursor, "")
	wantStrings(t, "events", second.ids(), "a", "b")
	want := `{"eventId":"a","name":"e","timestamp":"2026-11-20T08:00:00Z","data":{"id":"a","severity":"P1"},"_meta":{"k":"v"}}`
	if string(second.Events[0]) != want {
		t.Fatalf("got  %s\nwant %s", second.Events[0], want)
	}
	if strings.Contains(string(second.Events[1]), "_meta") {
		t.Fatalf("empty _meta in %s", second.Events[1])
	}
	if third := pollFrom(t, s, second.Cursor, ""); len(third.Events) != 0 || *third.Cursor != *second.Cursor {
		t.Fatalf("third = %+v", third)
	}
}

// POLL-4, POLL-7, trap 12: the cap, clamping, hasMore only when something matches.
func TestPollCap(t *testing.T) {
	s := newServer(t, Options{MaxEvents: 3, MaxEventsCap: 5})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	start := pollFrom(t, s, nil, "").Cursor
	for i := range 12 {
		emit(t, e, incident{ID: fmt.Sprint("x", i), Severity: []string{"P1", "P2"}[i%2]})
	}
	for _, tc := range []struct {
		more string
		want int
	}{{"", 3}, {`,"maxEvents":2`, 2}, {`,"maxEvents":1e0`, 1}, {`,"maxEvents":99999999999999999999`, 5}} {
		if r := pollFrom(t, s, start, tc.more); len(r.Events) != tc.want || !*r.HasMore {
			t.Errorf("%s: %d events, hasMore %v", tc.more, len(r.Events), *r.HasMore)
		}
	}
	r := pollFrom(t, s, start, `,"arguments":{"severity":"P1"},"maxEvents":5`)
	wantStrings(t, "filtered", r.ids(), "x0", "x2", "x4", "x6", "x8")
	r = pollFrom(t, s, r.Cursor, `,"arguments":{"severity":"P1"},"maxEvents":1`)
	wantStrings(t, "rest", r.ids(), "x10")
	if *r.HasMore {
		t.Error("POLL-4: hasMore with nothing left that matches")
	}
	for _, bad := range []string{`"maxEvents":0`, `"maxEvents":-1`, `"maxEvents":1.5`, `"maxEvents":"3"`, `"maxAgeMs":-1`, `"timeoutMs":-1`, `"cursor":3`, `"arguments":[]`} {
		_, err := call(s, "", wire.MethodPoll, `{"name":"e",`+bad+`}`)
		wantError(t, err, -32602, "*")
	}
}

// Trap 12, POLL-7: a long filtered scan stops, says so, and has moved the cursor. topic.Reader.Next carries the
// trap, and checkPoll.read for checks.
func TestPollScanBound(t *testing.T) {
	s := newServer(t, Options{ScanLimit: 100})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	c := pollFrom(t, s, nil, "").Cursor
	for i := range 350 {
		emit(t, e, incident{ID: fmt.Sprint("x", i), Severity: "P2"})
	}
	emit(t, e, incident{ID: "hit", Severity: "P1"})
	for n := 1; ; n++ {
		r := pollFrom(t, s, c, `,"arguments":{"severity":"P1"}`)
		if *r.Cursor == *c {
			t.Fatal("a poll with hasMore did not move the cursor")
		}
		c = r.Cursor
		if len(r.Events) > 0 {
			wantStrings(t, "found", r.ids(), "hit")
			if n != 4 || *r.HasMore {
				t.Fatalf("after %d polls, hasMore %v", n, *r.HasMore)
			}
			return
		}
		if !*r.HasMore || n > 4 {
			t.Fatalf("poll %d: %+v", n, r)
		}
	}
}

// D5, POLL-9: held until something matches or the time is over; a bootstrap is never held.
func TestPollHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{MaxWait: 20 * time.Second})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		began := time.Now()
		c := pollFrom(t, s, nil, `,"timeoutMs":10000`).Cursor
		if time.Since(began) != 0 {
			t.Fatal("the bootstrap was held")
		}
		for _, tc := range []struct{ wait, want time.Duration }{{5 * time.Second, 5 * time.Second}, {time.Minute, 20 * time.Second}, {0, 0}} {
			began := time.Now()
			r := pollFrom(t, s, c, fmt.Sprintf(`,"timeoutMs":%d`, tc.wait.Milliseconds()))
			if got := time.Since(began); got != tc.want || len(r.Events) != 0 {
				t.Fatalf("timeoutMs %v: held %v", tc.wait, got)
			}
		}
		go func() {
			time.Sleep(time.Second)
			emit(t, e, incident{ID: "no", Severity: "P2"})
			time.Sleep(time.Second)
			emit(t, e, incident{ID: "yes", Severity: "P1"})
		}()
		began = time.Now()
		r := pollFrom(t, s, c, `,"arguments":{"severity":"P1"},"timeoutMs":10000`)
		wantStrings(t, "held", r.ids(), "yes")
		if time.Since(began) != 2*time.Second {
			t.Fatalf("answered after %v", time.Since(began))
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() { time.Sleep(time.Second); cancel() }()
		_, err := s.inside().Call(ctx, port.Request{Method: wire.MethodPoll, Params: json.RawMessage(`{"name":"e","cursor":"` + *r.Cursor + `","timeoutMs":9000}`)})
		if err == nil {
			t.Fatal("a client that went away got an answer")
		}
	})
}

// POLL-9, SRV-6: Shutdown answers held polls at once; removal is NotFound; a new definition is used.
func TestPollHeldThroughChange(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, s *Server)
		code   int64
	}{
		{"shutdown", func(t *testing.T, s *Server) { s.Shutdown(context.Background()) }, 0},
		{"removed", func(t *testing.T, s *Server) { s.Remove("e") }, -32011},
		{"registered again", func(t *testing.T, s *Server) {
			e := register(t, s, "e", Hooks[filterArgs, incident]{})
			emit(t, e, incident{ID: "new"})
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Options{})
				register(t, s, "e", Hooks[filterArgs, incident]{})
				c := pollFrom(t, s, nil, "").Cursor
				go func() { time.Sleep(time.Second); tc.change(t, s) }()
				began := time.Now()
				_, err := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q,"timeoutMs":20000}`, *c))
				if tc.code != 0 {
					wantError(t, err, tc.code, `{"kind":"event"}`)
				} else if err != nil {
					t.Fatal(err)
				}
				if time.Since(began) != time.Second {
					t.Fatalf("answered after %v", time.Since(began))
				}
			})
		})
	}
}

// POLL-8, SRV-3: one OnSubscribe at first sight, one OnUnsubscribe when the lease lapses; a held
// poll renews.
func TestPollLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		var log journal
		register(t, s, "e", Hooks[filterArgs, incident]{
			OnSubscribe: func(_ context.Context, sub Subscription, a *filterArgs) error {
				log.add("on " + sub.Principal + " " + sub.Mode)
				return nil
			},
			OnUnsubscribe: func(_ context.Context, sub Subscription, a *filterArgs) { log.add("off " + sub.Principal) },
		})
		c := pollAs(t, s, "ann", `{"name":"e"}`).Cursor
		for range 3 {
			time.Sleep(4*time.Minute + 59*time.Second)
			pollAs(t, s, "ann", fmt.Sprintf(`{"name":"e","arguments":{},"cursor":%q,"timeoutMs":1000}`, *c))
		}
		wantStrings(t, "renewed", log.lines(), "on ann poll")
		pollAs(t, s, "bob", `{"name":"e","arguments":null}`)
		if n := len(s.Subscriptions()); n != 2 {
			t.Fatalf("%d subscriptions", n)
		}
		time.Sleep(5*time.Minute - 1)
		synctest.Wait()
		wantStrings(t, "t-1", log.lines(), "on ann poll", "on bob poll")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if last := log.lines()[2:]; len(last) != 2 || last[0] == last[1] {
			t.Fatalf("t: %q", last)
		}
		pollAs(t, s, "ann", `{"name":"e"}`)
		s.Shutdown(context.Background())
		wantStrings(t, "again", log.lines()[4:], "on ann poll", "off ann")
	})
}

// POLL-5: nextPollMs of the type; POLL-6: Unsupported without poll; LIST-3.
func TestPollOptions(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "e", Hooks[filterArgs, incident]{}, WithNextPoll(1234*time.Millisecond))
	register(t, s, "p", Hooks[filterArgs, incident]{}, WithoutPoll())
	if r := pollFrom(t, s, nil, ""); *r.NextPollMs != 1234 {
		t.Fatalf("nextPollMs %d", *r.NextPollMs)
	}
	_, err := call(s, "", wire.MethodPoll, `{"name":"p"}`)
	wantError(t, err, -32014, `{"feature":"deliveryMode","value":"poll"}`)
}

// CUR-3, CUR-7, LIST-3: a type without replay has null cursors, and only a held poll gets events.
func TestPollWithoutReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		typ := incidentType("e")
		typ.NoReplay = true
		if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		_, rerr := call(s, "", wire.MethodPoll, `{"name":"e"}`)
		wantError(t, rerr, -32014, `{"feature":"deliveryMode","value":"poll"}`)
		e, err := Register(s, typ, Hooks[filterArgs, incident]{}, WithPollWithoutReplay())
		if err != nil {
			t.Fatal(err)
		}
		emit(t, e, incident{ID: "past"})
		for _, cursor := range []string{"null", `"garbage"`} {
			r := poll(t, s, `{"name":"e","maxAgeMs":1,"cursor":`+cursor+`}`)
			if r.Cursor != nil || *r.Truncated || len(r.Events) != 0 {
				t.Fatalf("%s: %+v", cursor, r)
			}
		}
		go func() { time.Sleep(time.Second); emit(t, e, incident{ID: "live"}) }()
		r := poll(t, s, `{"name":"e","cursor":null,"timeoutMs":5000}`)
		wantStrings(t, "held", r.ids(), "live")
		if r.Cursor != nil {
			t.Fatal("CUR-3: a cursor")
		}
	})
}
