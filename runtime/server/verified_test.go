package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
)

// verifications are how many records there are.
func (w *world) verifications() int {
	w.t.Helper()
	_, all, err := w.live().Store().CountVerifications(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestVER3SweptAtStart removes what lapsed while nobody served.
func TestVER3SweptAtStart(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.unsubscribe("alice", plain)
		if err := w.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle(2 * time.Hour)
		w.Server = newServer(t, w.options)
		w.settle(0)
		if n := w.verifications(); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

// TestVER3Quota bounds the records of a principal and of all: over it nobody is asked, and what is
// over makes room (VER-3).
func TestVER3Quota(t *testing.T) {
	const over = `{"limit":"verifications","max":%d}`
	bubble(t, func(o *Options) {
		durably(o)
		o.webhook().Verify.PerPrincipal, o.webhook().Verify.Total = 3, 5
	}, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		url := func(i int) string { return fmt.Sprint(plain, "/", i) }
		w.settle(verify.SweepAtMost / 2)
		for i := range 3 {
			w.subscribe("alice", params(url(i), secretA, ""))
			if i > 0 {
				w.unsubscribe("alice", url(i))
			}
		}
		asked := len(w.r.challenges())
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(url(3), secretA, ""))
		wantError(t, rerr, -32013, fmt.Sprintf(over, 3))
		if n := len(w.r.challenges()); n != asked || w.r.packets() == 0 {
			t.Errorf("%d challenges, want %d", n, asked)
		}
		w.subscribe("alice", params(url(0), secretB, "")) // a refresh
		w.subscribe("alice", params(url(1), secretA, "")) // known
		for i := range 2 {
			w.subscribe("bob", params(url(i), secretA, ""))
		}
		_, rerr = call(w.Server, "carol", wire.MethodSubscribe, params(url(0), secretA, ""))
		wantError(t, rerr, -32013, fmt.Sprintf(over, 5))
		if n := w.verifications(); n != 5 {
			t.Errorf("%d records", n)
		}
		w.settle(time.Hour + time.Second) // before the next sweep
		w.subscribe("alice", params(url(3), secretA, ""))
	})
}

// TestVER3QuotaAtOnce verifies many callbacks at a time: no more records than allowed.
func TestVER3QuotaAtOnce(t *testing.T) {
	bubble(t, func(o *Options) {
		durably(o)
		o.webhook().Verify.PerPrincipal, o.webhook().Verify.Budget = 4, 100
	}, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.on(func(http.ResponseWriter, *delivered) bool { time.Sleep(time.Second); return false })
		done := make(chan bool)
		for i := range 20 {
			go func() {
				_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(fmt.Sprint(plain, "/", i), secretA, ""))
				done <- rerr == nil
			}()
		}
		ok := 0
		for range 20 {
			if <-done {
				ok++
			}
		}
		if n := w.verifications(); n != 4 || ok != 4 {
			t.Errorf("%d records, %d subscriptions, want 4", n, ok)
		}
		for i := range 20 {
			call(w.Server, "alice", wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, fmt.Sprint(plain, "/", i)))
		}
		w.settle(3 * time.Hour)
		for i := range 4 { // who was refused holds no place
			w.subscribe("alice", params(fmt.Sprint(plain, "/again", i), secretA, ""))
		}
	})
}

// TestVER3LiveStaysVerified lets a verification run out under a live subscription: neither its
// refresh nor another subscription of the pair asks again, another principal's does (VER-3).
func TestVER3LiveStaysVerified(t *testing.T) {
	bubble(t, func(o *Options) {
		durably(o)
		o.webhook().Verify.CacheFor = time.Minute
	}, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.settle(20 * time.Minute)
		if _, ok, err := w.live().Store().Verification(t.Context(), "alice", plain); !ok || err != nil {
			t.Fatalf("the record of a live subscription was removed (%v)", err)
		}
		w.subscribe("alice", params(plain, secretA, `,"arguments":{"redact":true}`))
		w.settle(5 * time.Minute)
		w.subscribe("alice", params(plain, secretA, ""))
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("%d challenges, want 1", n)
		}
		w.subscribe("bob", params(plain, secretA, ""))
		if n := len(w.r.challenges()); n != 2 {
			t.Errorf("%d challenges, want 2", n)
		}
		w.unsubscribe("alice", plain)
		call(w.Server, "alice", wire.MethodUnsubscribe, `{"name":"e","arguments":{"redact":true},"delivery":{"url":"`+plain+`"}}`)
		w.settle(2 * time.Minute)
		w.subscribe("alice", params(plain, secretA, ""))
		if n := len(w.r.challenges()); n != 3 {
			t.Errorf("%d challenges after it was left, want 3", n)
		}
	})
}
