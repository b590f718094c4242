package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An AttemptStore is what [TestAttempts] tests.
type AttemptStore interface {
	store.SubscriptionStore
	store.AttemptStore
}

// TestAttempts runs the suite of [store.AttemptStore]; open returns an empty store.
func TestAttempts(t *testing.T, open func(t *testing.T) AttemptStore) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, AttemptStore)
	}{
		{"attempts survive whole, the latest first", testAttempts},
		{"attempts of another generation are not kept", testAttemptGenerations},
		{"attempts go with their subscription", testAttemptsEnd},
		{"attempts are bounded per subscription", testAttemptsPerSubscription},
		{"attempts are bounded in age", testAttemptAge},
		{"attempts are bounded in all, the oldest go first", testAttemptTotal},
		{"trimming takes bounded steps", testAttemptSteps},
		{"a cancelled context stores and trims nothing", testAttemptContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// wide are bounds that nothing here reaches.
var wide = store.AttemptBounds{PerSubscription: 1000, MaxAge: time.Hour, Total: 1_000_000}

func attempt(n int) store.Attempt {
	return store.Attempt{EventID: fmt.Sprintf("evt_%d", n), Event: "incident.created", Number: 1, At: at(n), Took: time.Millisecond, Status: 204}
}

func record(t *testing.T, s AttemptStore, sub store.Subscription, made ...store.Attempt) {
	t.Helper()
	u := store.Update{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress, Health: sub.Health, Attempts: made}
	if err := s.SaveProgress(t.Context(), []store.Update{u}); err != nil {
		t.Fatal(err)
	}
}

func attemptsOf(t *testing.T, s AttemptStore, id string, limit int) []store.Attempt {
	t.Helper()
	found, err := s.Attempts(t.Context(), id, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// trim trims until nothing is left to do and returns in how many steps.
func trim(t *testing.T, s AttemptStore, b store.AttemptBounds, now time.Time, limit int) (steps int) {
	t.Helper()
	for {
		steps++
		more, err := s.TrimAttempts(t.Context(), b, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return steps
		}
		if steps > 10_000 {
			t.Fatal("trimming does not end")
		}
	}
}

func testAttempts(t *testing.T, s AttemptStore) {
	sub := put(t, s, sample("sub_1"))
	first := store.Attempt{EventID: "evt ö\x00", Event: "incident.created", Position: 1 << 40, Number: 1, At: at(1), Took: 1500 * time.Millisecond,
		Category: "http_5xx", Status: 503, NextAt: at(6)}
	second := store.Attempt{EventID: "evt ö\x00", Event: "incident.created", Number: 2, At: at(6), Took: time.Second, Category: "timeout"}
	record(t, s, sub, first)
	record(t, s, sub)
	record(t, s, sub, second, attempt(7))
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(7), second, first})
	equal(t, attemptsOf(t, s, sub.ID, 2), []store.Attempt{attempt(7), second})
	equal(t, len(attemptsOf(t, s, sub.ID, 0)), 0)
	equal(t, len(attemptsOf(t, s, "sub_unknown", 10)), 0)
	trim(t, s, wide, at(10), 100)
	equal(t, len(attemptsOf(t, s, sub.ID, 10)), 3)
}

func testAttemptGenerations(t *testing.T, s AttemptStore) {
	sub := put(t, s, sample("sub_1"))
	late := sub
	late.Generation++
	record(t, s, late, attempt(1))
	record(t, s, store.Subscription{ID: "sub_unknown", Generation: 1}, attempt(1))
	equal(t, len(attemptsOf(t, s, sub.ID, 10)), 0)
	equal(t, len(attemptsOf(t, s, "sub_unknown", 10)), 0)
}

func testAttemptsEnd(t *testing.T, s AttemptStore) {
	sub, other := put(t, s, sample("sub_1")), put(t, s, sample("sub_2"))
	record(t, s, sub, attempt(1))
	record(t, s, other, attempt(2))
	if err := s.DeleteSubscription(t.Context(), sub.ID, sub.Generation); err != nil {
		t.Fatal(err)
	}
	equal(t, len(attemptsOf(t, s, sub.ID, 10)), 0)
	equal(t, attemptsOf(t, s, other.ID, 10), []store.Attempt{attempt(2)})
}

func testAttemptsPerSubscription(t *testing.T, s AttemptStore) {
	sub, other := put(t, s, sample("sub_1")), put(t, s, sample("sub_2"))
	record(t, s, other, attempt(0))
	for n := range 9 {
		record(t, s, sub, attempt(n+1))
	}
	b := wide
	b.PerSubscription = 3
	trim(t, s, b, at(20), 100)
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(9), attempt(8), attempt(7)})
	equal(t, attemptsOf(t, s, other.ID, 10), []store.Attempt{attempt(0)})
	// What comes in one update goes at once, when the bound is kept without it.
	record(t, s, sub, attempt(10), attempt(11))
	record(t, s, sub, attempt(12), attempt(13))
	trim(t, s, b, at(20), 100)
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(13), attempt(12), attempt(11), attempt(10)})
	record(t, s, sub, attempt(14))
	trim(t, s, b, at(20), 100)
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(14), attempt(13), attempt(12)})
}

func testAttemptAge(t *testing.T, s AttemptStore) {
	sub, other := put(t, s, sample("sub_1")), put(t, s, sample("sub_2"))
	record(t, s, sub, attempt(1))
	record(t, s, other, attempt(2))
	record(t, s, sub, attempt(100))
	b := wide
	b.MaxAge = time.Minute
	trim(t, s, b, at(60), 100)
	equal(t, len(attemptsOf(t, s, sub.ID, 10)), 2)
	trim(t, s, b, at(62), 100) // at(2) is a minute old
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(100)})
	equal(t, len(attemptsOf(t, s, other.ID, 10)), 0)
}

func testAttemptTotal(t *testing.T, s AttemptStore) {
	a, b := put(t, s, sample("sub_1")), put(t, s, sample("sub_2"))
	for n := range 3 {
		record(t, s, a, attempt(2*n))
		record(t, s, b, attempt(2*n+1))
	}
	bounds := wide
	bounds.Total = 3
	trim(t, s, bounds, at(10), 100)
	equal(t, attemptsOf(t, s, a.ID, 10), []store.Attempt{attempt(4)})
	equal(t, attemptsOf(t, s, b.ID, 10), []store.Attempt{attempt(5), attempt(3)})
	// What went with its subscription does not count.
	if err := s.DeleteSubscription(t.Context(), b.ID, b.Generation); err != nil {
		t.Fatal(err)
	}
	record(t, s, a, attempt(6))
	record(t, s, a, attempt(7))
	trim(t, s, bounds, at(10), 100)
	equal(t, len(attemptsOf(t, s, a.ID, 10)), 3)
}

func testAttemptSteps(t *testing.T, s AttemptStore) {
	sub := put(t, s, sample("sub_1"))
	for n := range 12 {
		record(t, s, sub, attempt(n))
	}
	b := wide
	b.PerSubscription = 2
	if more, err := s.TrimAttempts(t.Context(), b, at(20), 4); err != nil || !more {
		t.Errorf("more is %v, error %v", more, err)
	}
	if n := len(attemptsOf(t, s, sub.ID, 20)); n < 8 || n == 12 {
		t.Errorf("a step of 4 left %d of 12", n)
	}
	if steps := trim(t, s, b, at(20), 4); steps < 2 {
		t.Errorf("the rest took %d steps", steps)
	}
	equal(t, attemptsOf(t, s, sub.ID, 20), []store.Attempt{attempt(11), attempt(10)})
	b.Total = 0
	trim(t, s, b, at(20), 1)
	equal(t, len(attemptsOf(t, s, sub.ID, 20)), 0)
}

func testAttemptContext(t *testing.T, s AttemptStore) {
	sub := put(t, s, sample("sub_1"))
	record(t, s, sub, attempt(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := store.Update{ID: sub.ID, Generation: sub.Generation, Attempts: []store.Attempt{attempt(2)}}
	if err := s.SaveProgress(ctx, []store.Update{u}); !errors.Is(err, context.Canceled) {
		t.Errorf("saving: %v", err)
	}
	if _, err := s.TrimAttempts(ctx, store.AttemptBounds{}, at(10), 100); !errors.Is(err, context.Canceled) {
		t.Errorf("trimming: %v", err)
	}
	if _, err := s.Attempts(ctx, sub.ID, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	equal(t, attemptsOf(t, s, sub.ID, 10), []store.Attempt{attempt(1)})
}
