package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// Attempts is a store that [TestAttempts] can test.
type Attempts interface {
	store.SubscriptionStore
	engine.Attempts
}

// TestAttempts runs the test suite for [engine.Attempts]; open returns an empty store.
func TestAttempts(t *testing.T, open func(t *testing.T) Attempts) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Attempts)
	}{
		{"attempts are returned as stored, the latest first", testAttempts},
		{"attempts of another generation are not kept", testAttemptGenerations},
		{"attempts are deleted with their subscription", testAttemptsEnd},
		{"attempts are bounded per subscription", testAttemptsPerSubscription},
		{"attempts are bounded in age", testAttemptAge},
		{"attempts are bounded in all, the oldest are deleted first", testAttemptTotal},
		{"trimming takes bounded steps", testAttemptSteps},
		{"a cancelled context stores and trims nothing", testAttemptContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// highBounds has limits that no test reaches.
var highBounds = engine.AttemptBounds{PerSubscription: 1000, MaxAge: time.Hour, Total: 1_000_000}

func attempt(n int) operator.Attempt {
	return operator.Attempt{EventID: fmt.Sprintf("evt_%d", n), Event: "incident.created", Number: 1, At: check.At(n), Took: time.Millisecond, Status: 204}
}

func record(t *testing.T, s Attempts, sub store.Subscription, made ...operator.Attempt) {
	t.Helper()
	u := store.Update{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress, Health: sub.Health}
	if err := s.SaveAttempts(t.Context(), []store.Update{u}, [][]operator.Attempt{made}); err != nil {
		t.Fatal(err)
	}
}

func attemptsOf(t *testing.T, s Attempts, id string, limit int) []operator.Attempt {
	t.Helper()
	found, err := s.Attempts(t.Context(), id, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// trimAll calls TrimAttempts until nothing is left to delete, and returns the number of calls.
func trimAll(t *testing.T, s Attempts, b engine.AttemptBounds, now time.Time, limit int) (steps int) {
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

func testAttempts(t *testing.T, s Attempts) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	first := operator.Attempt{EventID: "evt ö\x00", Event: "incident.created", Position: 1 << 40, Number: 1, At: check.At(1), Took: 1500 * time.Millisecond,
		Category: "http_5xx", Status: 503, NextAt: check.At(6)}
	second := operator.Attempt{EventID: "evt ö\x00", Event: "incident.created", Number: 2, At: check.At(6), Took: time.Second, Category: "timeout", AskedBy: "olga\x00 ö"}
	record(t, s, sub, first)
	record(t, s, sub)
	record(t, s, sub, second, attempt(7))
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(7), second, first})
	check.Equal(t, attemptsOf(t, s, sub.ID, 2), []operator.Attempt{attempt(7), second})
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 0)), 0)
	check.Equal(t, len(attemptsOf(t, s, "sub_unknown", 10)), 0)
	trimAll(t, s, highBounds, check.At(10), 100)
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 10)), 3)
}

func testAttemptGenerations(t *testing.T, s Attempts) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	late := sub
	late.Generation++
	record(t, s, late, attempt(1))
	record(t, s, store.Subscription{ID: "sub_unknown", Generation: 1}, attempt(1))
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 10)), 0)
	check.Equal(t, len(attemptsOf(t, s, "sub_unknown", 10)), 0)
}

func testAttemptsEnd(t *testing.T, s Attempts) {
	sub, other := check.Put(t, s, check.Subscription("sub_1")), check.Put(t, s, check.Subscription("sub_2"))
	record(t, s, sub, attempt(1))
	record(t, s, other, attempt(2))
	if err := s.DeleteSubscription(t.Context(), sub.ID, sub.Generation); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 10)), 0)
	check.Equal(t, attemptsOf(t, s, other.ID, 10), []operator.Attempt{attempt(2)})
}

func testAttemptsPerSubscription(t *testing.T, s Attempts) {
	sub, other := check.Put(t, s, check.Subscription("sub_1")), check.Put(t, s, check.Subscription("sub_2"))
	record(t, s, other, attempt(0))
	for n := range 9 {
		record(t, s, sub, attempt(n+1))
	}
	b := highBounds
	b.PerSubscription = 3
	trimAll(t, s, b, check.At(20), 100)
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(9), attempt(8), attempt(7)})
	check.Equal(t, attemptsOf(t, s, other.ID, 10), []operator.Attempt{attempt(0)})
	// Attempts of one update are deleted together, if the bound holds without them.
	record(t, s, sub, attempt(10), attempt(11))
	record(t, s, sub, attempt(12), attempt(13))
	trimAll(t, s, b, check.At(20), 100)
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(13), attempt(12), attempt(11), attempt(10)})
	record(t, s, sub, attempt(14))
	trimAll(t, s, b, check.At(20), 100)
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(14), attempt(13), attempt(12)})
}

func testAttemptAge(t *testing.T, s Attempts) {
	sub, other := check.Put(t, s, check.Subscription("sub_1")), check.Put(t, s, check.Subscription("sub_2"))
	record(t, s, sub, attempt(1))
	record(t, s, other, attempt(2))
	record(t, s, sub, attempt(100))
	b := highBounds
	b.MaxAge = time.Minute
	trimAll(t, s, b, check.At(60), 100)
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 10)), 2)
	trimAll(t, s, b, check.At(62), 100) // check.At(2) is a minute old
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(100)})
	check.Equal(t, len(attemptsOf(t, s, other.ID, 10)), 0)
}

func testAttemptTotal(t *testing.T, s Attempts) {
	a, b := check.Put(t, s, check.Subscription("sub_1")), check.Put(t, s, check.Subscription("sub_2"))
	for n := range 3 {
		record(t, s, a, attempt(2*n))
		record(t, s, b, attempt(2*n+1))
	}
	bounds := highBounds
	bounds.Total = 3
	trimAll(t, s, bounds, check.At(10), 100)
	check.Equal(t, attemptsOf(t, s, a.ID, 10), []operator.Attempt{attempt(4)})
	check.Equal(t, attemptsOf(t, s, b.ID, 10), []operator.Attempt{attempt(5), attempt(3)})
	// Attempts of a deleted subscription do not count.
	if err := s.DeleteSubscription(t.Context(), b.ID, b.Generation); err != nil {
		t.Fatal(err)
	}
	record(t, s, a, attempt(6))
	record(t, s, a, attempt(7))
	trimAll(t, s, bounds, check.At(10), 100)
	check.Equal(t, len(attemptsOf(t, s, a.ID, 10)), 3)
}

func testAttemptSteps(t *testing.T, s Attempts) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	for n := range 12 {
		record(t, s, sub, attempt(n))
	}
	b := highBounds
	b.PerSubscription = 2
	if more, err := s.TrimAttempts(t.Context(), b, check.At(20), 4); err != nil || !more {
		t.Errorf("more is %v, error %v", more, err)
	}
	if n := len(attemptsOf(t, s, sub.ID, 20)); n < 8 || n == 12 {
		t.Errorf("a step of 4 left %d of 12", n)
	}
	if steps := trimAll(t, s, b, check.At(20), 4); steps < 2 {
		t.Errorf("the rest took %d steps", steps)
	}
	check.Equal(t, attemptsOf(t, s, sub.ID, 20), []operator.Attempt{attempt(11), attempt(10)})
	b.Total = 0
	trimAll(t, s, b, check.At(20), 1)
	check.Equal(t, len(attemptsOf(t, s, sub.ID, 20)), 0)
}

func testAttemptContext(t *testing.T, s Attempts) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	record(t, s, sub, attempt(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := store.Update{ID: sub.ID, Generation: sub.Generation}
	if err := s.SaveAttempts(ctx, []store.Update{u}, [][]operator.Attempt{{attempt(2)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("saving: %v", err)
	}
	if _, err := s.TrimAttempts(ctx, engine.AttemptBounds{}, check.At(10), 100); !errors.Is(err, context.Canceled) {
		t.Errorf("trimming: %v", err)
	}
	if _, err := s.Attempts(ctx, sub.ID, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	check.Equal(t, attemptsOf(t, s, sub.ID, 10), []operator.Attempt{attempt(1)})
}
