package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// TestAttemptsOff keeps nothing where none are wanted.
func TestAttemptsOff(t *testing.T) {
	bubble(t, func(o *Options) { o.webhook().Attempts.PerSubscription = -1 }, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Minute)
		if got, err := w.Admin().Attempts(t.Context(), s.ID); err != nil || len(got) != 0 {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestConnections lists streams and pollers, and ends one of them.
func TestConnections(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		l := streamAs(t, w.Server, "alice", `{"name":"e"}`)
		synctest.Wait()
		began := time.Now()
		time.Sleep(time.Second)
		streamAs(t, w.Server, "bob", `{"name":"e"}`)
		if _, err := call(w.Server, "carol", "events/poll", `{"name":"e"}`); err != nil {
			t.Fatal(err)
		}
		emit(t, e, incident{ID: "i1"})
		synctest.Wait()
		got, _ := a.Connections(t.Context())
		if len(got) != 3 || got[0].Principal != "carol" || got[0].Mode != "poll" || got[1].Principal != "alice" || got[1].Mode != "push" || !got[1].Since.Equal(began) {
			t.Fatalf("%+v", got)
		}
		if got[1].Behind == nil || *got[1].Behind != 0 {
			t.Errorf("alice is behind: %+v", got[1])
		}
		types := a.EventTypes(t.Context())
		if len(types) != 1 || types[0].Streams != 2 || types[0].Pollers != 1 || types[0].Head != 1 || !types[0].Replay {
			t.Errorf("%+v", types)
		}
		if err := a.EndConnection(got[1].ID, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.EndConnection(got[0].ID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := l.shorts(); s[len(s)-1] != "terminated" {
			t.Errorf("%q", s)
		}
		if rest, _ := a.Connections(t.Context()); len(rest) != 1 || rest[0].Principal != "bob" {
			t.Errorf("%+v", rest)
		}
		for _, id := range []string{got[1].ID, got[0].ID, "", "x"} {
			if err := a.EndConnection(id, nil); !errors.Is(err, events.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if n, err := a.RevokePrincipal(t.Context(), "bob"); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		synctest.Wait()
		if rest, _ := a.Connections(t.Context()); len(rest) != 0 {
			t.Errorf("%+v", rest)
		}
	})
}

// TestPause holds deliveries back whatever the subscriber does, until an operator lets them go on
// (SUB-5, HOOK-8).
func TestPause(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		w.settle(time.Second)
		if err := a.Pause(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Minute)
		if err := a.Resume(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		again := w.subscribe("alice", params(plain, secretA, ""))
		if again.DeliveryStatus == nil || again.DeliveryStatus.Active {
			t.Errorf("%+v", again.DeliveryStatus)
		}
		w.settle(10 * time.Minute)
		if n := len(w.r.all()); n != 0 {
			t.Errorf("%d deliveries while paused", n)
		}
		i, err := a.Get(t.Context(), s.ID)
		if err != nil || i.State != operator.StatePaused || *i.Behind != 1 || !i.ExpiresAt.After(time.Now()) {
			t.Errorf("%+v %v", i, err)
		}
		if err := a.Pause(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := a.Unpause(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(time.Second)
		if got := w.r.shorts(); len(got) != 1 || got[0] != "i1" {
			t.Errorf("%q", got)
		}
		if i, err := a.Get(t.Context(), s.ID); err != nil || i.State != operator.StateActive {
			t.Errorf("%+v %v", i, err)
		}

		// Expiry goes on, and who subscribes anew is not paused.
		if err := a.Pause(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		w.settle(2 * time.Hour)
		for name, err := range map[string]error{"pause": a.Pause(t.Context(), s.ID), "unpause": a.Unpause(t.Context(), s.ID), "unknown": a.Pause(t.Context(), "sub_x")} {
			if !errors.Is(err, events.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		s = w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "i2"})
		w.settle(time.Minute)
		if got := w.r.shorts(); got[len(got)-1] != "i2" {
			t.Errorf("%q", got)
		}
	})
}
