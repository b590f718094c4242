package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// TestWebhookOfCheck delivers what a check finds by webhook: from now, from a cursor, over a
// failing upstream, which is a silent retry, and after a restart from the upstream's cursor with
// nothing missing (SRV-1, CUR-1, PUSH-5, SUB-11).
func TestWebhookOfCheck(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &mailbox{page: 3}
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		m.put("alice", mail("history"))
		s := w.subscribe("alice", params(plain, secretA, `,"ttlMs":36000000`))
		if s.Cursor == nil || s.Truncated {
			t.Fatalf("%+v", s)
		}
		put := func(from, to int) (ids []string) {
			for i := from; i < to; i++ {
				m.put("alice", mail(fmt.Sprint("m", i)))
				ids = append(ids, fmt.Sprint("m", i))
			}
			return ids
		}
		want := put(0, 10)
		w.settle(10 * time.Second)
		got := w.r.shorts()
		slices.SortFunc(got, byNumber)
		wantStrings(t, "delivered", got, want...)
		m.set(func() { m.fail = errors.New("away") })
		want = append(want, put(10, 12)...)
		w.settle(time.Minute)
		m.set(func() { m.fail = nil })
		w.settle(2 * time.Minute)
		got = w.r.shorts()
		slices.SortFunc(got, byNumber)
		wantStrings(t, "after a failure", got, want...)
		quiet := w.subscribe("alice", params(plain, secretA, `,"ttlMs":36000000`))
		if *quiet.Cursor == *s.Cursor || !quiet.DeliveryStatus.Active {
			t.Errorf("CUR-4: %+v after %+v", quiet, s)
		}

		w.restart(nil)
		want = append(want, put(12, 20)...) // while nobody asks
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		w.settle(10 * time.Second)
		got = w.r.shorts()
		slices.SortFunc(got, byNumber)
		wantStrings(t, "after a restart", slices.Compact(got), want...)
		w.unsubscribe("alice", plain)

		// From a cursor, as another subscription.
		n := len(w.r.all())
		if r := w.subscribe("alice", params(plain+"0", secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor))); *r.Cursor != *s.Cursor || r.Truncated {
			t.Errorf("%+v from %s", r, *s.Cursor)
		}
		w.settle(10 * time.Second)
		got = w.r.shorts()[n:]
		slices.SortFunc(got, byNumber)
		wantStrings(t, "from the cursor", got, want...)
		// A cursor of somebody else's is stale (CUR-7).
		if r := w.subscribe("bob", params(plain+"1", secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor))); !r.Truncated {
			t.Errorf("%+v", r)
		}
	})
}

func byNumber(a, b string) int {
	var i, j int
	fmt.Sscanf(strings.TrimLeft(a, "abcdefghijklmnopqrstuvwxyz"), "%d", &i)
	fmt.Sscanf(strings.TrimLeft(b, "abcdefghijklmnopqrstuvwxyz"), "%d", &j)
	return i - j
}

// TestWebhookOfCheckKeepsUnsettled kills a server while some deliveries of a check have failed and
// later ones have not: what is unsettled comes again from the upstream (HOOK-6, SUB-11).
func TestWebhookOfCheckKeepsUnsettled(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &mailbox{}
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		w.subscribe("alice", params(plain, secretA, ""))
		w.r.on(onlyFails("m1"))
		for i := range 5 {
			m.put("alice", mail(fmt.Sprint("m", i)))
			w.settle(2 * time.Second)
		}
		if c := w.r.last().body.Cursor; c == nil {
			t.Fatal("no cursor")
		}
		w.restart(nil)
		w.r.on(nil)
		before := len(w.r.all())
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		w.settle(time.Minute)
		if got := w.r.shorts()[before:]; !slices.Contains(got, "m1") || slices.Contains(got, "m0") {
			t.Errorf("after the restart: %q", got)
		}
	})
}

// TestWebhookOfCheckTruncated tells by a gap envelope that the upstream lost its place (HOOK-7).
func TestWebhookOfCheckTruncated(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		m := &mailbox{}
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		w.subscribe("alice", params(plain, secretA, ""))
		lost := true
		m.set(func() {
			m.extra = func(p *events.Page[incident]) { p.Truncated, lost = p.Truncated || lost, false }
		})
		w.settle(10 * time.Second)
		m.put("alice", mail("m0"))
		w.settle(10 * time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "gap", "m0")
		if r := w.subscribe("alice", params(plain, secretA, "")); !r.Truncated {
			t.Errorf("D7: %+v", r)
		}
	})
}

// TestWebhookOfBoth delivers what is emitted and what a check finds, once when it comes both ways,
// and goes on from both places after a restart (SRV-1).
func TestWebhookOfBoth(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &mailbox{}
		reg := func() *Emitter[incident] {
			e, err := RegisterBoth(w.Server, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := reg()
		w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "m0"})
		w.settle(2 * time.Second)
		m.put("alice", mail("m0"), mail("m1"))
		w.settle(2 * time.Second)
		emit(t, e, incident{ID: "m1"})
		emit(t, e, incident{ID: "m2"})
		w.settle(2 * time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "m0", "m1", "m2")
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "m3"})
		w.settle(2 * time.Second)
		before := len(w.r.all())
		w.restart(nil)
		w.r.on(nil)
		m.put("alice", mail("m4"))
		e = reg()
		w.settle(3 * time.Second)
		emit(t, e, incident{ID: "m5"})
		w.settle(3 * time.Second)
		got := w.r.shorts()[before:]
		slices.SortFunc(got, byNumber)
		wantStrings(t, "after the restart", got, "m3", "m4", "m5")
	})
}

// TestWebhookFeedsAreShared asks the upstream once for several subscriptions with equal arguments,
// and nobody's mail goes to another principal (SRV-5, trap 11).
// upstream.acquireFeed carries it: the key of a feed has the principal.
func TestWebhookFeedsAreShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		m := &mailbox{}
		registerMailbox(t, w.Server, m, WithNextPoll(10*time.Second))
		a := w.subscribe("alice", params(plain, secretA, ""))
		b := w.subscribe("alice", params(plain+"2", secretA, ""))
		c := w.subscribe("bob", params(plain, secretA, ""))
		synctest.Wait()
		n := len(m.questions())
		m.put("alice", mail("m0"))
		w.settle(15 * time.Second)
		if got := len(m.questions()) - n; got > 4 {
			t.Errorf("%d questions in one interval: %q", got, m.questions()[n:])
		}
		to := map[string]int{}
		for _, d := range w.r.all() {
			to[d.header.Get("X-MCP-Subscription-Id")]++
		}
		if to[a.ID] != 1 || to[b.ID] != 1 || to[c.ID] != 0 {
			t.Errorf("%v", to)
		}
	})
}

// TestSUB1NowIsFixedAtArrival emits while the callback is verified: a null cursor stands for the
// moment at which the request came, for logs and for checks (SUB-1).
func TestSUB1NowIsFixedAtArrival(t *testing.T) {
	for _, check := range []bool{false, true} {
		bubble(t, nil, func(t *testing.T, w *world) {
			m := &mailbox{}
			var e *Emitter[incident]
			if check {
				registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
			} else {
				e = register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			}
			add := func(id string) {
				if check {
					m.put("alice", mail(id))
				} else {
					emit(t, e, incident{ID: id})
				}
			}
			add("m0")
			w.r.on(func(_ http.ResponseWriter, d *delivered) bool {
				if d.body.Challenge != "" {
					add("m1")
				}
				return false
			})
			w.subscribe("alice", params(plain, secretA, ""))
			w.settle(5 * time.Second)
			wantStrings(t, fmt.Sprint("check ", check), w.r.shorts(), "m1")
		})
	}
}

// TestOCC4TransformFailure turns an occurrence that Transform spoils into a gap for that
// subscription; the author hears of it, and the others get theirs (OCC-4).
func TestOCC4TransformFailure(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{Transform: func(_ context.Context, p *incident, a *filterArgs) error {
			if a.Redact {
				p.Secret = strings.Repeat("x", 50)
			}
			return nil
		}})
		w.subscribe("alice", params(plain, secretA, ""))
		bad := w.subscribe("alice", params(plain, secretA, `,"arguments":{"redact":true}`))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		for _, d := range w.r.all() {
			if got := d.short(); (d.header.Get("X-MCP-Subscription-Id") == bad.ID) != (got == "gap") {
				t.Errorf("%s", d.raw)
			}
		}
		if n := len(w.r.all()); n != 2 {
			t.Errorf("delivered %q", w.r.shorts())
		}
	})
}
