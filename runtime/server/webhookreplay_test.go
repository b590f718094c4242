package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A hangingMailbox is a mailbox whose check does not answer one principal, "slow", while it hangs.
type hangingMailbox struct {
	mailbox
	hanging atomic.Pointer[chan struct{}] // nil while it answers
}

func (m *hangingMailbox) hang() {
	c := make(chan struct{})
	m.hanging.Store(&c)
}

func (m *hangingMailbox) answer() { close(*m.hanging.Swap(nil)) }

func (m *hangingMailbox) check(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error) {
	if c := m.hanging.Load(); c != nil && hook.Principal(ctx) == "slow" {
		select {
		case <-*c:
		case <-ctx.Done():
			return events.Page[incident]{}, ctx.Err()
		}
	}
	return m.mailbox.check(ctx, a, cursor)
}

func (m *hangingMailbox) register(t testing.TB, s *Server) {
	t.Helper()
	if err := RegisterCheck(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second)); err != nil {
		t.Fatal(err)
	}
}

// fallen is the number of items that fall adds.
const fallen = 200

// fall adds items in so many steps that the feed forgets the result at the start of the principal's subscription. A
// replay from the start then calls the check.
func (m *hangingMailbox) fall(w *world, principal string) {
	for i := range fallen {
		m.put(principal, mail(fmt.Sprint("old", i)))
		if i%10 == 0 {
			w.settle(2 * time.Second)
		}
	}
	w.settle(time.Minute)
}

// TestSRV8ReplayHangs replays from a check that does not answer: the request fails in time and without holding up the
// subscriber, and the subscription goes on as if nothing had been asked.
func TestSRV8ReplayHangs(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		s := w.subscribe("slow", params(plain, secretA, ""))
		m.fall(w, "slow")
		before := len(w.r.all())
		m.hang()
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- w.Admin().Replay(t.Context(), s.ID, *s.Cursor, 0) }()
		w.settle(time.Second)
		if r := w.subscribe("slow", params(plain, secretA, "")); r.DeliveryStatus == nil || time.Since(began) != time.Second {
			t.Errorf("refresh while the check hangs: %+v after %s", r, time.Since(began))
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the check did not return within 10s") || time.Since(began).Truncate(time.Second) != subscriber.ReplayTime {
			t.Errorf("Replay: %v after %s", err, time.Since(began))
		}
		m.answer()
		if i, err := w.Admin().Get(t.Context(), s.ID); err != nil || i.State != operator.StateActive {
			t.Errorf("%+v %v", i, err)
		}
		m.put("slow", mail("m1"))
		w.settle(time.Minute)
		wantStrings(t, "delivered after it", w.r.shorts()[before:], "m1")
		if err := w.Admin().Replay(t.Context(), s.ID, *s.Cursor, 0); err != nil {
			t.Error(err)
		}
		w.settle(time.Minute)
		if n := len(w.r.all()) - before; n != fallen+2 {
			t.Errorf("%d deliveries after a replay that succeeds, want %d", n, fallen+2)
		}
		w.unsubscribe("slow", plain)
		w.nothingLeft(nil)
	})
}

// TestSRV8ReplayOrder closes the old reader as late as can be and as early: the feed that both
// share is never given up between them, so the check is not asked by Replay itself.
func TestSRV8ReplayOrder(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		s := w.subscribe("slow", params(plain, secretA, ""))
		m.put("slow", mail("m0"))
		w.settle(5 * time.Second)
		m.hang()
		for range 20 {
			began := time.Now()
			if err := w.Admin().Replay(t.Context(), s.ID, *s.Cursor, 0); err != nil || time.Since(began) > time.Millisecond {
				t.Fatalf("%v after %s", err, time.Since(began))
			}
			w.settle(time.Second)
		}
		if got := w.r.shorts(); len(got) != 21 || strings.Trim(strings.Join(got, ""), "m0") != "" {
			t.Errorf("%q", got)
		}
		m.answer()
	})
}

// TestSRV8ReplayKeepsUnsettled replays a subscription to a check from a cursor after something that is still being
// retried: that comes too. Package subscriber tests the same for a log.
func TestSRV8ReplayKeepsUnsettled(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		s := w.subscribe("alice", params(plain, secretA, ""))
		w.r.on(onlyFails("i1"))
		for i := range 4 {
			m.put("alice", mail(fmt.Sprint("i", i)))
			w.settle(time.Second)
		}
		cursor := *pollAs(t, w.Server, "alice", `{"name":"e"}`).Cursor // after i3
		w.r.on(nil)
		before := len(w.r.all())
		if err := w.Admin().Replay(t.Context(), s.ID, cursor, 0); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second) // before the retry that was waiting
		if got := w.r.shorts()[before:]; !slices.Contains(got, "i1") {
			t.Errorf("%q", got)
		}
	})
}

// TestCUR7NoReplayNoGap loses what cannot be sent to a webhook of a type without replay, without a gap, which would have
// no cursor (CUR-7).
func TestCUR7NoReplayNoGap(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		typ := incidentType("e")
		typ.NoReplay = true
		e, err := Register(w.Server, typ, Hooks[filterArgs, incident]{Transform: func(_ context.Context, p *incident, a *filterArgs) error {
			if a.Redact {
				p.Secret = strings.Repeat("x", 50) // breaks the schema
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.subscribe("alice", params(plain, secretA, ""))
		w.subscribe("alice", params(plain, secretA, `,"arguments":{"redact":true}`))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Minute)
		wantStrings(t, "webhooks", w.r.shorts(), "i1")
		if r := w.subscribe("alice", params(plain, secretA, `,"arguments":{"redact":true}`)); r.Truncated || r.Cursor != nil {
			t.Errorf("%+v", r)
		}
	})
}

// TestSUB11HangingCheck restarts while the check of one principal hangs: the others' subscriptions
// come back and are delivered to, and the slow one goes on when the check answers.
func TestSUB11HangingCheck(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		for i := range 4 { // whatever the order in which they are restored
			w.subscribe("slow", params(fmt.Sprint(plain, i), secretA, ""))
			w.subscribe("alice", params(fmt.Sprint(plain, "a", i), secretA, ""))
		}
		m.put("alice", mail("m0"))
		w.settle(3 * time.Second)
		m.hang()
		before := len(w.r.all())
		w.restart(nil)
		m.register(t, w.Server)
		m.put("alice", mail("m1"))
		m.put("slow", mail("s1"))
		w.settle(3 * time.Second)
		wantStrings(t, "delivered", w.r.shorts()[before:], "m1", "m1", "m1", "m1")
		began := time.Now()
		if r := w.subscribe("slow", params(plain+"0", secretA, "")); r.DeliveryStatus == nil || time.Since(began) != 0 {
			t.Errorf("%+v after %s", r, time.Since(began))
		}
		before = len(w.r.all())
		w.restart(nil)
		m.answer()
		m.register(t, w.Server)
		w.settle(3 * time.Second)
		wantStrings(t, "when it answers", w.r.shorts()[before:], "s1", "s1", "s1", "s1")
	})
}

// TestSUB1HangingCheck bounds a subscribe whose check does not answer: without a cursor it is an
// upstream error and leaves nothing, with one the subscription begins there.
func TestSUB1HangingCheck(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		s := w.subscribe("slow", params(plain, secretA, ""))
		w.unsubscribe("slow", plain)
		w.settle(time.Second)
		m.put("slow", mail("m0"))
		m.hang()
		began := time.Now()
		_, rerr := call(w.Server, "slow", wire.MethodSubscribe, params(plain, secretA, ""))
		wantError(t, rerr, -32603, "*")
		if rerr.Message != "UpstreamError" || time.Since(began) != feed.AskTime {
			t.Errorf("%+v after %s", rerr, time.Since(began))
		}
		w.nothingLeft(nil)
		r := w.subscribe("slow", params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor)))
		if r.Truncated || *r.Cursor != *s.Cursor {
			t.Errorf("%+v", r)
		}
		w.unsubscribe("slow", plain) // its loop asks in vain
		w.settle(time.Second)
		m.answer()
		w.subscribe("slow", params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor)))
		w.settle(5 * time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "m0")
	})
}

// TestD7TruncatedOnce tells of a place that the upstream has lost in the response, and not by an
// envelope as well (D7).
func TestD7TruncatedOnce(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		m := &hangingMailbox{}
		m.register(t, w.Server)
		s := w.subscribe("alice", params(plain, secretA, ""))
		w.unsubscribe("alice", plain)
		m.put("alice", mail("m0"), mail("m1"))
		m.set(func() { m.extra = func(p *events.Page[incident]) { p.Truncated = len(p.Items) > 0 } })
		if r := w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor))); !r.Truncated {
			t.Errorf("%+v", r)
		}
		w.settle(5 * time.Second)
		got := w.r.shorts()
		slices.Sort(got)
		wantStrings(t, "delivered", got, "m0", "m1")
	})
}
