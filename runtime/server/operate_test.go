package server

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// TestAttemptsOfSubscription shows what was sent and what came back, and sends one event again under
// its webhook-id.
func TestAttemptsOfSubscription(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		other := w.subscribe("bob", params(plain, secretA, ""))
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "i1"}, events.WithID("evt_1"))
		w.settle(time.Second)
		w.r.on(nil)
		w.settle(time.Minute)
		got, err := a.Attempts(t.Context(), s.ID)
		if err != nil || len(got) != 2 || got[0].EventID != "evt_1" || got[0].Number != 2 || got[0].Category != "" || got[1].Category == "" {
			t.Fatalf("%+v %v", got, err)
		}
		before := len(w.r.all())
		cursor, err := a.Get(t.Context(), s.ID)
		if err != nil || cursor.Behind == nil || *cursor.Behind != 0 {
			t.Fatalf("%+v %v", cursor, err)
		}
		made, err := a.SendAgain(t.Context(), s.ID, "evt_1")
		if err != nil || made.Number != 3 || made.Status/100 != 2 || made.Category != "" {
			t.Fatalf("%+v %v", made, err)
		}
		all := w.r.all()
		if len(all) != before+1 || all[before].header.Get("webhook-id") != "evt_1" || all[before].header.Get("X-MCP-Subscription-Id") != s.ID {
			t.Errorf("%d requests, the last is %s", len(all)-before, all[len(all)-1].raw)
		}
		if again, err := a.Get(t.Context(), s.ID); err != nil || *again.Cursor != *cursor.Cursor {
			t.Errorf("the watermark moved: %+v %v", again, err)
		}
		w.settle(time.Second)
		if got, err := a.Attempts(t.Context(), s.ID); err != nil || len(got) != 3 || got[0].Number != 3 {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := a.Attempts(t.Context(), other.ID); err != nil || len(got) != 2 {
			t.Errorf("of the other one: %+v %v", got, err)
		}

		// Nothing is sent for what is not there.
		before = len(w.r.all())
		for name, err := range map[string]error{
			"unknown event":        operateError(a.SendAgain(t.Context(), s.ID, "evt_2")),
			"unknown subscription": operateError(a.SendAgain(t.Context(), "sub_x", "evt_1")),
			"attempts":             operateError(a.Attempts(t.Context(), "sub_x")),
		} {
			if !errors.Is(err, events.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := a.End(t.Context(), s.ID, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		if n := len(w.r.all()); n != before+1 { // the terminated envelope
			t.Errorf("%d requests", n-before)
		}
		if _, err := a.SendAgain(t.Context(), s.ID, "evt_1"); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("after its end: %v", err)
		}
		if _, err := a.Attempts(t.Context(), s.ID); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("attempts after its end: %v", err)
		}
	})
}

func operateError[T any](_ T, err error) error { return err }

// TestAttemptsOff keeps nothing where none are wanted.
func TestAttemptsOff(t *testing.T) {
	bubble(t, func(o *Options) { o.Webhook.Attempts.PerSubscription = -1 }, func(w *world) {
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
		got := a.Connections()
		if len(got) != 3 || got[0].Principal != "carol" || got[0].Mode != "poll" || got[1].Principal != "alice" || got[1].Mode != "push" || !got[1].Since.Equal(began) {
			t.Fatalf("%+v", got)
		}
		if got[1].Behind == nil || *got[1].Behind != 0 {
			t.Errorf("alice is behind: %+v", got[1])
		}
		types := a.EventTypes()
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
		if rest := a.Connections(); len(rest) != 1 || rest[0].Principal != "bob" {
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
		if rest := a.Connections(); len(rest) != 0 {
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

// TestSendAgainBesideARetry takes the retry that is due for what an operator asks, and tells which attempt is
// whose (E12).
func TestSendAgainBesideARetry(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		release := make(chan struct{})
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
			<-release
			return refuseAll(rw, d)
		})
		emit(t, e, incident{ID: "i1"}, events.WithID("evt_1"))
		release <- struct{}{}
		w.settle(time.Second)
		refused := make(chan error)
		go func() {
			_, err := a.SendAgain(t.Context(), s.ID, "evt_1")
			refused <- err
		}()
		w.settle(time.Millisecond)
		if _, err := a.SendAgain(t.Context(), s.ID, "evt_1"); !errors.Is(err, operator.ErrUnderWay) {
			t.Errorf("beside another one: %v", err)
		}
		close(release)
		if err := <-refused; err != nil {
			t.Error(err)
		}
		w.r.on(nil)
		made, err := a.SendAgain(t.Context(), s.ID, "evt_1")
		if err != nil || made.Number != 3 || made.Category != "" {
			t.Fatalf("%+v, %v", made, err)
		}
		w.settle(15 * time.Minute)
		got, err := a.Attempts(t.Context(), s.ID)
		if err != nil || len(got) != 3 || len(w.r.all()) != 3 {
			t.Fatalf("%d requests, %+v, %v", len(w.r.all()), got, err)
		}
		for i, m := range got {
			if m.Number != 3-i || m.ByHand != (m.Number > 1) {
				t.Errorf("%+v", m)
			}
		}
		if i, err := a.Get(t.Context(), s.ID); err != nil || *i.Behind != 0 {
			t.Errorf("%+v, %v", i, err)
		}
	})
}
