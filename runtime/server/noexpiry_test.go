package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// TestSUB6NoExpiry grants a subscription without expiry where it is allowed, keeps it over a
// restart, and drops it with a terminated attempt when it has failed for longer than a window,
// counted from the first failure after the last start (SUB-6, HOOK-5).
func TestSUB6NoExpiry(t *testing.T) {
	bubble(t, func(o *Options) {
		durably(o)
		o.webhook().AllowNoExpiry = true
		o.webhook().Retry.NoExpiryRemoval = 3 * time.Hour
		o.webhook().Retry.Schedule = []time.Duration{0, time.Second, time.Second}
	}, func(t *testing.T, w *world) {
		hooks := &journal{}
		h := Hooks[filterArgs, incident]{
			OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		}
		e := register(t, w.Server, "e", h)
		s := w.subscribe("alice", params(plain, secretA, `,"ttlMs":null`))
		if s.RefreshBefore != nil {
			t.Fatalf("refreshBefore %s", *s.RefreshBefore)
		}
		if s := w.subscribe("alice", params(plain, secretA, `,"ttlMs":60000`)); s.RefreshBefore == nil {
			t.Error("null although a number was asked for")
		}
		w.subscribe("alice", params(plain, secretA, `,"ttlMs":null`))
		w.settle(100 * time.Hour)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1")

		fail := func(rw http.ResponseWriter, d *delivered) bool {
			if strings.HasPrefix(d.body.Type, "term") {
				return false
			}
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
		w.r.on(fail)
		keepFailing := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				e.Emit(t.Context(), incident{ID: "i"})
				w.settle(time.Minute)
			}
		}
		keepFailing(2 * time.Hour)
		w.restart(nil)
		e = register(t, w.Server, "e", h)
		keepFailing(2 * time.Hour)
		if st, err := w.Admin().State(t.Context(), s.ID); st == operator.StateAbsent || err != nil {
			t.Fatalf("dropped too early: %s %v", st, err)
		}
		keepFailing(90 * time.Minute)
		if st, err := w.Admin().State(t.Context(), s.ID); st != operator.StateAbsent || err != nil {
			t.Errorf("%s %v", st, err)
		}
		if got := w.r.last().short(); got != `terminated -32015 CallbackEndpointError {"reason":"http_5xx"}` {
			t.Error(got)
		}
		wantStrings(t, "hooks", hooks.lines(), "on", "on", "off")
		w.nothingLeft(nil)
	})
}
