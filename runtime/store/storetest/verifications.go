package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// testSweep checks that a sweep removes only expired, unused verifications (VER-3).
func testSweep(t *testing.T, s store.SubscriptionStore) {
	ctx := t.Context()
	remember := func(principal, url string, until time.Time) {
		t.Helper()
		err := s.PutVerification(ctx, store.Verification{Principal: principal, URL: url, Method: "challenge", At: check.At(0), Until: until})
		if err != nil {
			t.Fatal(err)
		}
	}
	there := func(principal, url string) bool {
		t.Helper()
		_, ok, err := s.Verification(ctx, principal, url)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	used := check.Subscription("sub_1")
	check.Put(t, s, used)
	for i := range 5 {
		remember("alice", fmt.Sprint("u", i), check.At(10))
	}
	remember("alice", used.URL, check.At(10))  // in use
	remember("bob", used.URL, check.At(10))    // used by another principal
	remember("alice", "for ever", time.Time{}) // set by an operator
	remember("alice", "later", check.At(11).Add(1))
	count := func(wantOwn, wantAll int) {
		t.Helper()
		if own, all, err := s.CountVerifications(ctx, "alice"); own != wantOwn || all != wantAll || err != nil {
			t.Errorf("%d of %d (%v), want %d of %d", own, all, err, wantOwn, wantAll)
		}
	}
	count(8, 9)
	sweep := func(now time.Time, limit, want int) {
		t.Helper()
		if n, err := s.SweepVerifications(ctx, now, limit); n != want || err != nil {
			t.Errorf("removed %d (%v), want %d", n, err, want)
		}
	}
	sweep(check.At(10).Add(-1), 100, 0)
	sweep(check.At(10), 0, 0)
	sweep(check.At(10), 2, 2)
	sweep(check.At(11), 100, 4)
	count(3, 3)
	if there("bob", used.URL) || !there("alice", used.URL) || !there("alice", "for ever") || !there("alice", "later") {
		t.Error("the wrong verifications were removed")
	}
	if err := s.DeleteSubscription(ctx, used.ID, used.Generation); err != nil {
		t.Fatal(err)
	}
	sweep(check.At(11), 100, 1)
	count(2, 2)
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.SweepVerifications(over, check.At(100), 100); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
	count(2, 2)
}
