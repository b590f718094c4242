package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// TestSRV8ReplayStaleCursor replays a subscription from cursors that do not belong to the log as it is (SRV-8).
func TestSRV8ReplayStaleCursor(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		replay := func(what string, c wire.Cursor) {
			t.Helper()
			before := len(w.r.all())
			if err := w.Admin().Replay(t.Context(), s.ID, c.String(), 0); err != nil {
				t.Error(err)
			}
			w.settle(time.Minute)
			if got := slices.Sorted(slices.Values(w.r.shorts()[before:])); !slices.Equal(got, []string{"gap", "i1"}) {
				t.Errorf("%s: %q", what, got)
			}
		}
		old, err := wire.ParseCursor(*s.Cursor)
		if err != nil {
			t.Fatal(err)
		}
		old.Epoch++
		replay("a cursor of an earlier life of the log", old)
		// It was given out before an older copy of the log was put back (CUR-8).
		lost, err := wire.ParseCursor(*pollFrom(t, w.Server, nil, "").Cursor)
		if err != nil || lost.Proof == 0 {
			t.Fatal(lost, err)
		}
		lost.Proof ^= 2
		replay("a cursor of a lost entry", lost)
	})
}

// TestSRV8ReplayOfCheck replays a subscription to a check from a cursor (SRV-8).
func TestSRV8ReplayOfCheck(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		m := &mailbox{}
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		s := w.subscribe("alice", params(plain, secretA, ""))
		m.put("alice", mail("m0"), mail("m1"))
		w.settle(5 * time.Second)
		if err := w.Admin().Replay(t.Context(), s.ID, *s.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		m.put("alice", mail("m2"))
		w.settle(5 * time.Second)
		if got := strings.Join(w.r.shorts(), " "); len(w.r.all()) != 5 || !strings.HasSuffix(got, "m2") {
			t.Errorf("%s", got)
		}
		w.unsubscribe("alice", plain)
		w.nothingLeft(nil)
	})
}

// TestSRV8Raise raises errors, gaps and terminations for a type and for one subscription, on
// streams and webhooks (SRV-8, PUSH-5 to PUSH-7, HOOK-7).
func TestSRV8Raise(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		register(t, w.Server, "quiet", Hooks[filterArgs, incident]{})
		l := streamAs(t, w.Server, "alice", `{"name":"e"}`)
		quiet := streamAs(t, w.Server, "alice", `{"name":"quiet"}`)
		s := w.subscribe("alice", params(plain, secretA, ""))
		other := w.subscribe("bob", params(plain, secretA, ""))
		synctest.Wait()

		if n, err := a.RaiseError(t.Context(), operator.Target{Event: "e"}, events.Upstream("maintenance")); n != 1 || err != nil {
			t.Error(n, err)
		}
		synctest.Wait()
		if n, err := a.RaiseGap(t.Context(), operator.Target{Event: "e"}); n != 3 || err != nil {
			t.Error(n, err)
		}
		w.settle(time.Second)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		wantStrings(t, "stream", l.shorts(), "active", "error", "active", "event i1")
		f := l.frames()
		if !f[2].params.Truncated || f[2].params.Cursor == nil || *f[2].params.Cursor == *f[0].params.Cursor {
			t.Errorf("PUSH-7: %s after %s", f[2].raw, f[0].raw)
		}
		if f[1].params.Error.Message != "UpstreamError" {
			t.Error(f[1].raw)
		}
		wantStrings(t, "quiet", quiet.shorts(), "active")
		if got := strings.Join(w.r.shorts(), " "); got != "gap gap i1 i1" {
			t.Errorf("webhooks: %s", got)
		}

		if n, err := a.RaiseGap(t.Context(), operator.Target{ID: s.ID}); n != 1 || err != nil {
			t.Error(n, err)
		}
		w.settle(time.Second)
		d := w.r.last()
		if i, _ := a.Get(t.Context(), s.ID); d.short() != "gap" || d.header.Get("X-MCP-Subscription-Id") != s.ID || d.body.Cursor == nil || *d.body.Cursor != *i.Cursor || !i.Truncated {
			t.Errorf("%s, %+v", d.raw, i)
		}
		if n, err := a.Terminate(t.Context(), operator.Target{ID: s.ID}, events.NewError(wire.NotFound, map[string]string{"kind": "subscription"})); n != 1 || err != nil {
			t.Error(n, err)
		}
		w.settle(time.Second)
		if got := w.r.last().short(); got != `terminated -32011 NotFound {"kind":"subscription"}` {
			t.Error(got)
		}

		// A type stays closed, after the check of the mode.
		n, err := a.Terminate(t.Context(), operator.Target{Event: "e"}, nil)
		if n != 2 || err != nil {
			t.Error(n, err)
		}
		w.settle(time.Second)
		if d := w.r.last(); d.header.Get("X-MCP-Subscription-Id") != other.ID || d.short() != `terminated -32012 Forbidden {"reason":"terminated"}` {
			t.Error(d.short())
		}
		if got := l.shorts(); got[len(got)-1] != "terminated" {
			t.Error(got)
		}
		const forbidden = `{"reason":"terminated"}`
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(plain, secretA, ""))
		wantError(t, rerr, -32012, forbidden)
		_, rerr = call(w.Server, "alice", wire.MethodPoll, `{"name":"e"}`)
		wantError(t, rerr, -32012, forbidden)
		_, rerr = openStream(w.Server, "alice", `{"name":"e"}`)
		wantError(t, rerr, -32012, forbidden)
		_, rerr = call(w.Server, "alice", wire.MethodSubscribe, `{"name":"e","delivery":{"mode":"push"}}`)
		wantError(t, rerr, -32014, `{"feature":"deliveryMode","value":"push"}`)
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))

		for _, err := range []error{second(a.RaiseGap(t.Context(), operator.Target{Event: "nope"})), second(a.RaiseError(t.Context(), operator.Target{ID: "sub_0"}, nil)), second(a.Terminate(t.Context(), operator.Target{}, nil))} {
			if !errors.Is(err, events.ErrNotFound) {
				t.Error(err)
			}
		}
	})
}

func second(_ int, err error) error { return err }

// TestSRV8Register makes a subscription for a principal whose callback was verified by other
// means, without a packet, under the id that the principal's own subscribe derives (SRV-8, VER-1).
func TestSRV8Register(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		a := w.Admin()
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		id, err := a.Subscribe(t.Context(), operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{Principal: "alice", URL: secure, Event: "e"}})
		if err != nil || id != wire.SubscriptionID("webhook", "alice", secure, "e", []byte("{}")) {
			t.Fatal(id, err)
		}
		if n := w.r.packets(); n != 0 {
			t.Errorf("%d connections", n)
		}
		if s := w.subscribe("alice", params(secure, secretA, "")); s.ID != id || s.DeliveryStatus == nil || len(w.r.challenges()) != 0 {
			t.Errorf("%+v, %d challenges", s, len(w.r.challenges()))
		}
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1")
	})
}

// TestSRV8AllowOrigin lifts the rules about scheme and address for one exact origin (SRV-8).
func TestSRV8AllowOrigin(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		const local = "http://127.0.0.1:9000/hook"
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(local, secretA, ""))
		wantError(t, rerr, -32602, "*")
		for _, bad := range []string{"http://127.0.0.1:9000/", "http://127.0.0.1:9000/x", "http://a@127.0.0.1:9000", "127.0.0.1:9000", "http://127.0.0.1:9000?x", "ftp://127.0.0.1"} {
			if _, err := w.Admin().AllowOrigin(bad); err == nil {
				t.Errorf("%s is accepted", bad)
			}
		}
		revoke, err := w.Admin().AllowOrigin("http://127.0.0.1:9000")
		if err != nil {
			t.Fatal(err)
		}
		w.subscribe("alice", params(local, secretA, ""))
		if len(w.r.challenges()) != 1 {
			t.Error("verification is lifted too")
		}
		_, rerr = call(w.Server, "alice", wire.MethodSubscribe, params("http://127.0.0.1:9001/hook", secretA, ""))
		wantError(t, rerr, -32602, "*")
		revoke()
		_, rerr = call(w.Server, "alice", wire.MethodSubscribe, params(local, secretA, ""))
		wantError(t, rerr, -32602, "*")
	})
}

// HOOK-10: a server without webhooks has no keys to show.
func TestHOOK10KeySetWithoutWebhooks(t *testing.T) {
	rec := httptest.NewRecorder()
	newServer(t, Options{}).KeySet().ServeHTTP(rec, httptest.NewRequest("GET", KeySetPath, nil))
	if rec.Code != http.StatusNotFound {
		t.Error(rec.Code)
	}
}
