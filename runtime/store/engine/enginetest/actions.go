package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// TestActions runs the test suite for [engine.Actions]. The function open returns an empty store. For a store with a
// separate clock, the function age backdates the actions. For a store that uses the process's clock, age is nil.
func TestActions(t *testing.T, open func(t *testing.T) engine.Actions, age func(t *testing.T, s engine.Actions, by time.Duration)) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, engine.Actions)
	}{
		{"an action is claimed once and its outcome is remembered", testAction},
		{"an action that was forgotten can be claimed again", testActionForgotten},
		{"of concurrent claims one is fresh", testActionConcurrent},
		{"actions that are too large are refused", testActionSize},
		{"a cancelled context claims nothing", testActionContext},
		{"the oldest actions are dropped beyond the limit", testActionBound},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
	aging := func(t *testing.T) {
		s := open(t)
		claim(t, s, "a", "request", true)
		ok(t, s.FinishAction(t.Context(), "a", []byte("outcome")))
		claim(t, s, "pending", "request", true)
		age(t, s, engine.ActionAge-time.Minute)
		if got := claim(t, s, "a", "request", false); string(got.Outcome) != "outcome" {
			t.Errorf("after nine minutes: %q", got.Outcome)
		}
		age(t, s, time.Minute)
		is(t, s.FinishAction(t.Context(), "pending", nil), engine.ErrActionGone)
		claim(t, s, "a", "another", true)
	}
	t.Run("an action is remembered for ten minutes", func(t *testing.T) {
		if age != nil {
			aging(t)
			return
		}
		age = func(_ *testing.T, _ engine.Actions, by time.Duration) { time.Sleep(by) }
		synctest.Test(t, aging)
	})
}

func claim(t *testing.T, s engine.Actions, key, request string, wantFresh bool) engine.Action {
	t.Helper()
	stands, fresh, err := s.ClaimAction(t.Context(), engine.Action{Key: key, Request: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	if fresh != wantFresh {
		t.Fatalf("claiming %s: fresh is %v", key, fresh)
	}
	return stands
}

func testAction(t *testing.T, s engine.Actions) {
	claim(t, s, "a", "request", true)
	if got := claim(t, s, "a", "another", false); got.Key != "a" || string(got.Request) != "request" || got.Outcome != nil {
		t.Errorf("while it is in progress: %+v", got)
	}
	claim(t, s, "b", "", true)
	for _, outcome := range []string{`{"status":200}`, "", "\x00\xff"} {
		ok(t, s.FinishAction(t.Context(), "a", []byte(outcome)))
		if got := claim(t, s, "a", "request", false); got.Outcome == nil || string(got.Outcome) != outcome {
			t.Errorf("%q became %q", outcome, got.Outcome)
		}
	}
	is(t, s.FinishAction(t.Context(), "unknown", nil), engine.ErrActionGone)
	claim(t, s, "A", "", true) // keys are compared by their bytes
	claim(t, s, "a ", "", true)
	claim(t, s, "a\x00\xff", "", true)
}

func testActionForgotten(t *testing.T, s engine.Actions) {
	claim(t, s, "a", "request", true)
	ok(t, s.ForgetAction(t.Context(), "a"))
	ok(t, s.ForgetAction(t.Context(), "a"))
	is(t, s.FinishAction(t.Context(), "a", nil), engine.ErrActionGone)
	claim(t, s, "a", "another", true)
	if got := claim(t, s, "a", "another", false); string(got.Request) != "another" {
		t.Errorf("%+v", got)
	}
}

func testActionConcurrent(t *testing.T, s engine.Actions) { claimTogether(t, s, s) }

// claimTogether concurrently claims the same keys in two stores.
func claimTogether(t *testing.T, a, b engine.Actions) {
	for round := range 10 {
		var fresh atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			s := a
			if i%2 > 0 {
				s = b
			}
			wg.Go(func() {
				_, f, err := s.ClaimAction(context.Background(), engine.Action{Key: fmt.Sprint("k", round), Request: []byte("r")})
				if err != nil {
					t.Error(err)
				}
				if f {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		if n := fresh.Load(); n != 1 {
			t.Errorf("%d claims of one key were fresh", n)
		}
	}
}

func testActionSize(t *testing.T, s engine.Actions) {
	large := bytes.Repeat([]byte("x"), engine.MaxAction+1)
	for _, a := range []engine.Action{{}, {Key: string(large)}, {Key: "a", Request: large}} {
		if _, _, err := s.ClaimAction(t.Context(), a); err == nil || !strings.HasPrefix(err.Error(), "store: ") {
			t.Errorf("%d, %d bytes: %v", len(a.Key), len(a.Request), err)
		}
	}
	claim(t, s, "a", string(large[1:]), true)
	if err := s.FinishAction(t.Context(), "a", large); err == nil {
		t.Error("a large outcome is accepted")
	}
	ok(t, s.FinishAction(t.Context(), "a", large[1:]))
}

func testActionContext(t *testing.T, s engine.Actions) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, fresh, err := s.ClaimAction(ctx, engine.Action{Key: "a"}); fresh || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", fresh, err)
	}
	claim(t, s, "a", "", true)
	is(t, s.FinishAction(ctx, "a", nil), context.Canceled)
	is(t, s.ForgetAction(ctx, "a"), context.Canceled)
	if got := claim(t, s, "a", "", false); got.Outcome != nil {
		t.Errorf("%+v", got)
	}
}

func testActionBound(t *testing.T, s engine.Actions) {
	var wg sync.WaitGroup
	var next atomic.Int64
	claim(t, s, "first", "", true)
	for range 16 {
		wg.Go(func() {
			for n := next.Add(1); n < engine.MaxActions; n = next.Add(1) {
				if _, _, err := s.ClaimAction(context.Background(), engine.Action{Key: fmt.Sprint(n)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	claim(t, s, "first", "", false)
	claim(t, s, "one more", "", true)
	claim(t, s, "first", "", true)
	claim(t, s, "one more", "", false)
}
