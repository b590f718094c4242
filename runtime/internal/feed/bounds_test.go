package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// argsOf are arguments that no other call has.
func (s *service) argsOf(i int) *topic.Arguments {
	s.t.Helper()
	a, err := s.typ.Parse(json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// bound replaces the check by one of each principal, with bounds. A call waits until next lets it go, which returns the
// principals in the order of their calls.
func (s *service) bound(b Bounds) (running func() []string, next func(principal string)) {
	s.feeds = new(Feeds)
	s.feeds.Init(s, b)
	var mu sync.Mutex
	var now []string
	gates := map[string]chan struct{}{}
	s.check = &Check{Interval: interval, Ask: func(ctx context.Context, args any, cursor string) (Page, error) {
		who := fmt.Sprint((*args.(*map[string]any))["i"])
		mu.Lock()
		gate := make(chan struct{})
		now, gates[who] = append(now, who), gate
		mu.Unlock()
		<-gate
		mu.Lock()
		now = slices.DeleteFunc(now, func(w string) bool { return w == who })
		mu.Unlock()
		return s.ask(ctx, args, cursor)
	}}
	s.feeds.Adopt(s.check)()
	return func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(now)
		}, func(who string) {
			mu.Lock()
			close(gates[who])
			mu.Unlock()
		}
}

// poll polls once, and returns its error later.
func (s *service) poll(ctx context.Context, principal string, i int) <-chan error {
	done := make(chan error, 1)
	a := s.argsOf(i)
	go func() {
		p, _, err := OpenPoll(ctx, Seat{Feeds: s.feeds, ID: "p", Principal: principal, Bell: topic.NewWake()}, s.check, a, Start{})
		if err == nil {
			p.Close()
		}
		done <- err
	}()
	synctest.Wait() // so that the order of calls is known
	return done
}

// CAP-5: of one principal, and of all, so many calls of a check run at once. Others wait, and principals take turns. From
// half of the calls on, those without a running call go first.
func TestCAP5ChecksTakeTurns(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		running, next := s.bound(Bounds{Calls: 4, CallsEach: 2})
		var all []<-chan error
		for i := range 4 { // 0 to 3
			all = append(all, s.poll(t.Context(), "ann", i))
		}
		if got := running(); !slices.Equal(got, []string{"0", "1"}) {
			t.Fatalf("of ann alone run %v", got)
		}
		for i, who := range []string{"ben", "ben", "eve", "fay"} { // 4 to 7
			all = append(all, s.poll(t.Context(), who, 4+i))
		}
		if got := running(); !slices.Equal(got, []string{"0", "1", "4", "6"}) {
			t.Fatalf("of all run %v", got)
		}
		var order []string
		for range all {
			was := running()
			next(was[0])
			for _, who := range running() {
				if !slices.Contains(was, who) {
					order = append(order, who)
				}
			}
		}
		if got := strings.Join(order, " "); got != "7 2 5 3" {
			t.Errorf("then run %s", got)
		}
		for _, err := range all {
			if err := <-err; err != nil {
				t.Error(err)
			}
		}
		if len(s.feeds.used) != 0 {
			t.Errorf("left: %v", s.feeds.used)
		}
	})
}

// CAP-5: who goes away while it waits leaves its turn to others.
func TestCAP5WaitingCheckEnds(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		running, next := s.bound(Bounds{Calls: 1})
		first := s.poll(t.Context(), "ann", 0)
		ctx, cancel := context.WithCancel(t.Context())
		second, third := s.poll(ctx, "ben", 1), s.poll(t.Context(), "ben", 2)
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		next("0")
		if got := running(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("then run %v", got)
		}
		next("2")
		for _, done := range []<-chan error{first, third} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// CAP-5: a principal reads a check with so many different arguments; that is its bound alone, equal arguments count
// once, and a subscription that was accepted before is not refused.
func TestCAP5DistinctChecks(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.feeds = new(Feeds)
		s.feeds.Init(s, Bounds{Checks: 2})
		s.feeds.Adopt(s.check)()
		open := func(principal string, i int, later bool) (*Source, error) {
			src, _, err := Open(t.Context(), Seat{Feeds: s.feeds, ID: "s", Principal: principal, Bell: topic.NewWake()}, s.check, s.argsOf(i), Start{Later: later})
			return src, err
		}
		var all []*Source
		keep := func(principal string, i int, later bool) {
			t.Helper()
			src, err := open(principal, i, later)
			if err != nil {
				t.Fatalf("%s %d: %v", principal, i, err)
			}
			all = append(all, src)
		}
		refused := func(what string, max int, err error) {
			t.Helper()
			var e *events.Error
			if !errors.As(err, &e) || e.Kind != events.KindResourceExhausted || string(e.Data) != fmt.Sprintf(`{"limit":"checks","max":%d}`, max) {
				t.Errorf("%s: %v", what, err)
			}
		}
		keep("ann", 0, false)
		keep("ann", 1, false)
		keep("ann", 1, false)
		_, err := open("ann", 2, false)
		refused("a stream", 2, err)
		refused("a poll", 2, <-s.poll(t.Context(), "ann", 2))
		_, _, err = s.feeds.Fix(t.Context(), s.check, s.argsOf(2), "ann", 0, topic.Replay{})
		refused("a webhook subscription", 2, err)
		if err := <-s.poll(t.Context(), "ann", 0); err != nil {
			t.Errorf("a poll with arguments that are read: %v", err)
		}
		keep("ann", 2, true)
		keep("ben", 2, false)
		for i := range 2 * anonymousFactor {
			keep("", i, false)
		}
		_, err = open("", 100, false)
		refused("without a principal", 2*anonymousFactor, err)
		for _, src := range all {
			src.Close()
		}
		if len(s.feeds.used) != 0 {
			t.Errorf("left: %v", s.feeds.used)
		}
	})
}
