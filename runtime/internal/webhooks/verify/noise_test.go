package verify

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
)

// A scene is the noise of some principals that verify 20 callbacks each at a host, again and again, next to newcomers
// at the same host.
type scene struct {
	kind   string
	answer func(n int) (took time.Duration, ok bool) // to the n-th challenge of a noisy principal
	noisy  int                                       // principals that make noise
	began  start
}

// A start is how the verifications of a scene began.
type start string

const (
	fresh    start = "new"      // nobody was verified at the host; one newcomer a second
	warm     start = "warm"     // somebody was verified at the host before; one newcomer a second
	restored start = "restored" // the process began, which has forgotten that; 20 newcomers at once
)

func (c scene) name() string { return fmt.Sprintf("%d %s, %s", c.noisy, c.kind, c.began) }

// always answers each challenge in the same way.
func always(d time.Duration, ok bool) func(int) (time.Duration, bool) {
	return func(int) (time.Duration, bool) { return d, ok }
}

// flip answers one challenge in nine at once; eight hang.
func flip(n int) (time.Duration, bool) {
	if n%9 == 0 {
		return 0, true
	}
	return 5 * time.Second, false
}

// grid are the scenes of each kind, number and start.
func grid() []scene {
	var all []scene
	for _, c := range []scene{
		{kind: "slow", answer: always(3*time.Second, true)},
		{kind: "failing", answer: always(20*time.Millisecond, false)},
		{kind: "hanging", answer: always(5*time.Second, false)},
		{kind: "flip", answer: flip},
	} {
		for _, c.began = range []start{fresh, warm, restored} {
			for _, c.noisy = range []int{1, 2, 3, 10} {
				all = append(all, c)
			}
		}
	}
	return all
}

// play runs the scene for two minutes and returns how long the verifications of the newcomers took, two each. It also
// returns the maximum number of failures within a minute, and how many verifications of newcomers were refused.
func (c scene) play(t *testing.T) (took []time.Duration, failures, refused int) {
	const rounds = 120
	var all []time.Duration
	var b failureBudget
	var mu sync.Mutex
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	verify := func(principal string, d time.Duration, ok bool) error {
		limited, cancel := context.WithTimeout(ctx, verifyTime)
		defer cancel()
		finish, err := b.reserve(limited, principal, "host", 10)
		if err != nil {
			return err
		}
		time.Sleep(d)
		finish(ok)
		b.mu.Lock()
		failures = max(failures, len(b.failuresOf(budgetKey{kind: ofHost, host: "host"}, time.Now()).at))
		b.mu.Unlock()
		return nil
	}
	if c.began == warm {
		verify("first", 0, true)
	}
	for p := range c.noisy {
		challenges := 0
		for range 20 {
			running.Go(func() {
				for ctx.Err() == nil {
					mu.Lock()
					challenges++
					d, ok := c.answer(challenges)
					mu.Unlock()
					verify(fmt.Sprint("noisy_", p), d, ok)
					time.Sleep(time.Second)
				}
			})
		}
	}
	time.Sleep(time.Millisecond)
	newcomer := func(n int) {
		for range 2 {
			running.Go(func() {
				asked := time.Now()
				err := verify(fmt.Sprint("quiet_", n), 20*time.Millisecond, true)
				mu.Lock()
				defer mu.Unlock()
				if all = append(all, time.Since(asked)); err != nil {
					refused++
				}
			})
		}
	}
	for round := range rounds {
		if c.began != restored {
			newcomer(round)
		} else if round == 0 {
			for n := range 20 {
				newcomer(n)
			}
		}
		time.Sleep(time.Second)
	}
	mu.Lock()
	defer mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(all)), failures, refused
}

// VER-3: one principal or several verify in ways that make noise: they do not close the host to newcomers, whose
// verifications are hardly later, and the host's budget holds.
func TestVER3Noise(t *testing.T) {
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	quiet := map[start][]time.Duration{}
	play := func(c scene) {
		t.Run(c.name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, failures, refused := c.play(t)
				if c.noisy == 0 {
					quiet[c.began] = took
				}
				t.Logf("p50 %8v  p99 %8v  %d of %d refused, %d failures", took[len(took)/2], p99(took), refused, len(took), failures)
				if bound := max(100*time.Millisecond, 3*p99(quiet[c.began])); p99(took) > bound {
					t.Errorf("p99 of the newcomers is %v, want at most %v", p99(took), bound)
				}
				if refused > 0 || failures > 40 {
					t.Errorf("%d of %d newcomers refused, %d failures", refused, len(took), failures)
				}
			})
		})
	}
	for _, began := range []start{fresh, warm, restored} {
		play(scene{kind: "silent", began: began})
		play(scene{kind: "hanging", answer: always(5*time.Second, false), noisy: 10, began: began})
	}
	for _, c := range sampletest.Draw(t, grid(), 6) {
		play(c)
	}
}
