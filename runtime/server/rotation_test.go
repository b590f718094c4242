package server

import (
	"context"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// SUB-5, VER-3: the challenge of a refresh that brings a new secret is signed with both, as all else is in
// the time of grace; an endpoint that knows one of them accepts it.
func TestSUB5ChallengeOfARotation(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		if err := w.live().Store().DeleteVerification(t.Context(), "alice", plain); err != nil {
			t.Fatal(err)
		}
		w.subscribe("alice", params(plain, secretB, ""))
		all := w.r.challenges()
		if len(all) != 2 {
			t.Fatalf("%d challenges", len(all))
		}
		if d := all[1]; !d.signedBy(secretA) || !d.signedBy(secretB) {
			t.Errorf("the challenge is signed by the old secret: %v, by the new one: %v", d.signedBy(secretA), d.signedBy(secretB))
		}
	})
}

// A subscription that ends while its check is asked under a new definition, which hangs, leaves no feed of
// either definition.
func TestHangingRebindLeavesNoFeed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		m := &stuckMailbox{free: make(chan struct{})}
		reg := func() {
			check := func(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error) {
				return m.check(ctx, a, cursor)
			}
			if err := RegisterCheck(w.Server, incidentType("e"), check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		reg()
		w.subscribe("alice", params(plain, secretA, ""))
		m.put("", mail("m0"))
		w.settle(5 * time.Second)
		et := w.types["e"]
		if n := et.feeds.Len(); n != 1 {
			t.Fatalf("%d feeds", n)
		}
		m.behind.Store(1 << 40)
		reg()
		w.settle(5 * time.Second)
		if m.hung.Load() == 0 {
			t.Fatal("nothing hangs")
		}
		w.unsubscribe("alice", plain)
		w.settle(time.Minute)
		if n := w.types["e"].feeds.Len(); n != 0 {
			t.Errorf("%d feeds are left", n)
		}
	})
}
