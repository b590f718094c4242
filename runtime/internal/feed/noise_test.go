package feed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A scene is the noise of some principals with 100 checks each, next to the polls of others.
type scene struct {
	kind   string
	answer func(ctx context.Context, n int) error // to the n-th call for a noisy principal
	noisy  int                                    // principals that make noise
	began  start
}

// A start is how the polls of a scene began.
type start string

const (
	fresh    start = "new"      // those of the others come one principal a second, next to the noise
	warm     start = "warm"     // those of the others were there before the noise
	restored start = "restored" // all begin at once, the noise first
)

func (c scene) name() string { return fmt.Sprintf("%d %s, %s", c.noisy, c.kind, c.began) }

// after answers after a time.
func after(d time.Duration, err error) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		waiting, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-waiting.Done()
		return err
	}
}

// flip answers one call in nine at once; eight hang.
func flip(ctx context.Context, n int) error {
	if n%9 > 0 {
		<-ctx.Done()
	}
	return nil
}

// grid are the scenes of each kind, number and start.
func grid() []scene {
	var all []scene
	for _, c := range []scene{
		{kind: "slow", answer: after(3*time.Second, nil)},
		{kind: "failing", answer: after(0, errors.New("broken"))},
		{kind: "hanging", answer: after(time.Hour, nil)},
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

// play runs the scene for 20 s and returns how long the polls of the others took: of 20 principals, or of one more each
// second. It also returns how many calls each principal had in the second half.
func (c scene) play(s *service) (took []time.Duration, calls map[string]int) {
	const rounds = 20
	t := s.t
	began := time.Now()
	var mu sync.Mutex
	requests := map[string]int{}
	calls = map[string]int{}
	s.feeds = new(Feeds)
	s.feeds.Init(s, Bounds{Calls: 32, CallsEach: 8, Checks: 100})
	s.check = &Check{Interval: interval, Ask: func(ctx context.Context, _ any, _ string) (Page, error) {
		principal := hook.Principal(ctx)
		mu.Lock()
		requests[principal]++
		n := requests[principal]
		if time.Since(began) > rounds/2*time.Second {
			calls[principal]++
		}
		mu.Unlock()
		if strings.HasPrefix(principal, "noisy") {
			return Page{Cursor: "c"}, c.answer(ctx, n)
		}
		return Page{Cursor: "c"}, after(20*time.Millisecond, nil)(ctx, n)
	}}
	s.feeds.Adopt(s.check)()
	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	ask := func(principal string, i int) bool {
		p, _, err := OpenPoll(ctx, Seat{Feeds: s.feeds, ID: "p", Principal: principal, Bell: topic.NewWake()}, s.check, s.argsOf(i), Start{})
		if err == nil {
			p.Close()
		}
		return err == nil
	}
	noise := func() {
		for p := range c.noisy {
			for i := range 100 {
				polls.Go(func() {
					for ctx.Err() == nil {
						ask(fmt.Sprint("noisy_", p), i)
						after(time.Second, nil)(ctx, 0)
					}
				})
			}
		}
		time.Sleep(time.Millisecond)
	}
	if c.began != warm {
		noise()
	}
	for round := range rounds {
		others := 20
		if c.began == fresh {
			others = min(round, others)
		}
		for n := range 2 * others {
			polls.Go(func() {
				asked := time.Now()
				if ask(fmt.Sprint("quiet_", n/2), n%2) {
					mu.Lock()
					took = append(took, time.Since(asked))
					mu.Unlock()
				}
			})
		}
		if round == 5 && c.began == warm {
			noise()
		}
		time.Sleep(time.Second)
	}
	cancel()
	polls.Wait()
	slices.Sort(took)
	return took, calls
}

// CAP-5: one principal or several have the check called in ways that make noise: the calls of the others, the first of a
// newcomer included, are hardly later than without it.
func TestCAP5Noise(t *testing.T) {
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	quiet := map[start][]time.Duration{}
	play := func(c scene) {
		t.Run(c.name(), func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				took, _ := c.play(s)
				if c.noisy == 0 {
					quiet[c.began] = took
				}
				want := len(quiet[c.began])
				if len(took) != want {
					t.Fatalf("%d polls of the others returned, want %d", len(took), want)
				}
				t.Logf("p50 %8v  p99 %8v  max %8v", took[want/2], p99(took), took[want-1])
				if bound := max(100*time.Millisecond, 3*p99(quiet[c.began])); p99(took) > bound {
					t.Errorf("p99 of the others is %v, want at most %v", p99(took), bound)
				}
			})
		})
	}
	for _, began := range []start{fresh, warm, restored} {
		play(scene{kind: "silent", began: began})
		play(scene{kind: "hanging", answer: after(time.Hour, nil), noisy: 10, began: began})
	}
	for _, c := range sampletest.Draw(t, grid(), 6) {
		play(c)
	}
}

// CAP-5: when the calls are full of principals with one call each, all principals have equally many.
func TestCAP5FullCalls(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 3 * time.Second} {
		asking(t, func(t *testing.T, s *service) {
			_, calls := scene{answer: after(d, nil), noisy: 40, began: restored}.play(s)
			least, most := math.MaxInt, 0
			for _, n := range calls {
				least, most = min(least, n), max(most, n)
			}
			if len(calls) != 60 || most-least > 1 {
				t.Errorf("%v each: %d principals have %d to %d calls, want 60 with equally many: %v", d, len(calls), least, most, calls)
			}
		})
	}
}

// CAP-5: a feed that a noisy principal opened has its check called for anyone who needs the result: one that comes first or
// while the call waits for a slot.
func TestCAP5SharedFeedOfANoisyPrincipal(t *testing.T) {
	for name, noiseFirst := range map[string]bool{"the other comes while the call waits": true, "the other was there": false} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				const each = 2
				s.feeds = new(Feeds)
				s.feeds.Init(s, Bounds{Calls: 32, CallsEach: each, Checks: 100})
				var mu sync.Mutex
				hanging := 0
				s.check = &Check{Shared: true, Interval: interval, Ask: func(ctx context.Context, _ any, _ string) (Page, error) {
					mu.Lock()
					hang := hanging < each
					hanging++
					mu.Unlock()
					if hang {
						<-ctx.Done()
					}
					return Page{Cursor: "c"}, nil
				}}
				s.feeds.Adopt(s.check)()
				ctx, cancel := context.WithCancel(t.Context())
				var opens sync.WaitGroup
				open := func(ctx context.Context, principal string, i int) error {
					seat := Seat{Feeds: s.feeds, ID: "s", Principal: principal, Bell: topic.NewWake()}
					src, _, err := Open(ctx, seat, s.check, s.argsOf(i), Start{})
					if err == nil {
						src.Close()
					}
					return err
				}
				for i := range each {
					opens.Go(func() { _ = open(ctx, "noisy", i) })
				}
				synctest.Wait()
				asked := func(principal string) { opens.Go(func() { _ = open(ctx, principal, each) }) }
				if noiseFirst {
					asked("noisy")
					synctest.Wait()
				}
				began := time.Now()
				limited, stop := context.WithTimeout(ctx, time.Minute)
				defer stop()
				if err := open(limited, "quiet", each); err != nil || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				cancel()
				opens.Wait()
			})
		})
	}
}
