package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// POLL-8: a poll that asks for less does not shorten what a held poll of the same subscription has.
// lease.Leases.Renew carries it.
func TestPOLL8LeasesAreNotShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hooks := newServer(t, Options{}), &journal{}
		register(t, s, "e", Hooks[filterArgs, incident]{
			OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		}, WithPollLease(5*time.Second))
		c := pollFrom(t, s, nil, "").Cursor
		time.Sleep(time.Second)
		done := make(chan struct{})
		go func() { defer close(done); pollFrom(t, s, c, `,"timeoutMs":30000`) }()
		time.Sleep(time.Second)
		pollFrom(t, s, c, "")
		time.Sleep(20 * time.Second)
		wantStrings(t, "while a poll is held", hooks.lines(), "on")
		<-done
		time.Sleep(time.Minute)
		synctest.Wait()
		wantStrings(t, "in the end", hooks.lines(), "on", "off")
	})
}

// SUB-4, CAP-5: arguments that were accepted before are found by their canonical form when a refresh
// writes them in another way, although new ones of that size are refused.
// subscriber.Subscriptions.parseArguments carries it.
func TestSUB4RefreshOfLargeArguments(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		tag := strings.Repeat("x", 1000)
		long, short := `{"minLevel":1000000000,"tag":"`+tag+`"}`, `{ "tag":"`+tag+`", "minLevel" : 1e9 }`
		first := w.subscribe("alice", params(plain, secretA, `,"arguments":`+long))
		w.types["e"].def.MaxArguments = 100 // what an operator may set with the next start
		if again := w.subscribe("alice", params(plain, secretA, `,"arguments":`+short)); again.ID != first.ID {
			t.Error("a refresh is another subscription")
		}
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(plain+"x", secretA, `,"arguments":`+short))
		wantError(t, rerr, -32602, "*")
	})
}
