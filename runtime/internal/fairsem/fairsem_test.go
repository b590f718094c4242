package fairsem

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// empty fails the test if the semaphore still knows a call.
func (s *Semaphore) empty(t *testing.T) {
	t.Helper()
	if len(s.queues)+len(s.line)+s.running != 0 {
		t.Errorf("left: %d keys, %d in line, %d running", len(s.queues), len(s.line), s.running)
	}
}

// TestRandomCalls: many keys have calls of random lengths, other keys join some of them, and some callers give up. The
// limits hold at any time, no call is forgotten, and nothing is left.
func TestRandomCalls(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			const slots, perKey, keys = 7, 3, 12
			var s Semaphore
			s.Init(slots, perKey)
			var mu sync.Mutex
			running := map[string]int{}
			enter := func(key string, n int) {
				mu.Lock()
				defer mu.Unlock()
				running[key] += n
				all := 0
				for _, of := range running {
					all += of
				}
				if running[key] > perKey || all > slots {
					t.Errorf("%d calls of %s run, %d in all", running[key], key, all)
				}
			}
			var calls sync.WaitGroup
			for range 300 {
				key := fmt.Sprint(rand.N(keys))
				patience, length := time.Hour, rand.N(3*time.Second)
				if rand.N(3) == 0 {
					patience = rand.N(time.Second)
				}
				joins := rand.N(5) - 2
				calls.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					c := s.NewCall()
					c.Join(key)
					for range joins {
						time.AfterFunc(rand.N(time.Second), func() { c.Join(fmt.Sprint(rand.N(keys))) })
					}
					release, err := c.Wait(ctx)
					if err != nil {
						if patience == time.Hour {
							t.Error("a call never started")
						}
						return
					}
					enter(c.granted.key, 1)
					time.Sleep(length)
					enter(c.granted.key, -1)
					release()
				})
				time.Sleep(rand.N(20 * time.Millisecond))
			}
			calls.Wait()
			s.empty(t)
		})
	}
}

// TestCanceledCallsLeaveNothing: while all slots are used, callers come and give up.
func TestCanceledCallsLeaveNothing(t *testing.T) {
	var s Semaphore
	s.Init(1, 1)
	release, err := s.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"a", "b", "b", "c"} {
		if _, err := s.Acquire(canceled, key); err != context.Canceled {
			t.Errorf("%s: %v", key, err)
		}
	}
	if len(s.queues) != 1 || len(s.line) != 0 {
		t.Errorf("%d keys, %d in line", len(s.queues), len(s.line))
	}
	release()
	s.empty(t)
}

// TestTryAcquire: calls of several keys, each of which starts or does not.
func TestTryAcquire(t *testing.T) {
	for _, c := range []struct {
		slots, perKey int
		keys, want    string // a key of each call, and x if the call starts
	}{
		{0, 0, "aaaa", "xxxx"},
		{0, 2, "aaab", "xx-x"},
		{1, 0, "aab", "x--"},
		{2, 0, "aabc", "x-x-"},
		{3, 0, "aaabb", "xx-x-"},
		{4, 0, "aaabbcc", "xx-x-x-"},
		{8, 3, "aaaabbbcdefg", "xxx-x--xxxx-"},
	} {
		var s Semaphore
		s.Init(c.slots, c.perKey)
		got := ""
		var all []func()
		for _, key := range c.keys {
			release, ok := s.TryAcquire(string(key))
			if !ok {
				got += "-"
				continue
			}
			got += "x"
			all = append(all, release)
		}
		if got != c.want {
			t.Errorf("%d slots, %d per key: of %s start %s, want %s", c.slots, c.perKey, c.keys, got, c.want)
		}
		for _, release := range all {
			release()
		}
		s.empty(t)
	}
}
