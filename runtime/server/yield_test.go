package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A river is an upstream of so many occurrences, whose cursors are numbers. Its check yields.
type river struct {
	mu     sync.Mutex
	length int
	ids    bool          // occurrences have ids of the upstream
	fails  map[int]error // in place of an occurrence
	asked  []string      // cursors
	begun  int           // iterations
	ended  int           // of those
	pause  time.Duration // before each occurrence
}

func (r *river) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *river) yield(ctx context.Context, _ filterArgs, cursor string) iter.Seq2[events.Found[incident], error] {
	r.set(func() { r.asked = append(r.asked, cursor) })
	return func(yield func(events.Found[incident], error) bool) {
		r.set(func() { r.begun++ })
		defer r.set(func() { r.ended++ })
		r.mu.Lock()
		length := r.length
		r.mu.Unlock()
		from, err := strconv.Atoi(cursor)
		if err != nil {
			yield(events.Found[incident]{Cursor: strconv.Itoa(length), Item: &events.Item[incident]{Data: incident{ID: "not delivered"}}}, nil)
			return
		}
		for n := from + 1; n <= length; n++ {
			if err := rest(ctx, r.pause); err != nil {
				yield(events.Found[incident]{}, err)
				return
			}
			r.mu.Lock()
			f, err := events.Found[incident]{Cursor: strconv.Itoa(n), Item: &events.Item[incident]{Data: incident{ID: fmt.Sprint("data ", n)}}}, r.fails[n]
			if r.ids {
				f.Item.ID = fmt.Sprint("n", n)
			}
			r.mu.Unlock()
			if err != nil {
				f = events.Found[incident]{}
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// rest waits for d, or for the end of ctx. It sets no timer that is due at once.
func rest(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *river) register(t testing.TB, s *Server) {
	t.Helper()
	if err := RegisterCheck(s, incidentType("e"), Yield[filterArgs, incident](r.yield).Check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second)); err != nil {
		t.Fatal(err)
	}
}

// shortPage is a page in short.
func shortPage(p events.Page[incident], err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text := ""
	if n := len(p.Items); n > 0 {
		text = fmt.Sprintf("%s to %s, ", p.Items[0].Cursor, p.Items[n-1].Cursor)
	}
	text += "at " + p.Cursor
	for flag, set := range map[string]bool{" more": p.HasMore, " truncated": p.Truncated} {
		if set {
			text += flag
		}
	}
	return text
}

// SRV-1: a yielding check is bounded, broken off when there is enough, and what came before an error counts.
func TestSRV1Yield(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		river  *river
		cursor string
		within time.Duration // 0: no bound
		want   string
	}{
		"now":                             {river: &river{length: 7}, cursor: "", want: "at 7"},
		"nothing new":                     {river: &river{length: 7}, cursor: "7", want: "at 7"},
		"a few":                           {river: &river{length: 7}, cursor: "3", want: "4 to 7, at 7"},
		"as many as it takes":             {river: &river{length: 100}, cursor: "0", want: "1 to 100, at 100"},
		"too many":                        {river: &river{length: 1 << 40}, cursor: "0", want: "1 to 100, at 100 more"},
		"an error first":                  {river: &river{length: 7, fails: map[int]error{1: down}}, cursor: "0", want: "error: down"},
		"an error in the middle":          {river: &river{length: 7, fails: map[int]error{4: down}}, cursor: "0", want: "1 to 3, at 3 more"},
		"an error after what is taken":    {river: &river{length: 200, fails: map[int]error{101: down}}, cursor: "0", want: "1 to 100, at 100 more"},
		"a slow one":                      {river: &river{length: 100, pause: 300 * time.Millisecond}, cursor: "0", want: "1 to 3, at 3 more"},
		"a very slow one":                 {river: &river{length: 100, pause: time.Minute}, cursor: "0", want: "1 to 1, at 1 more"},
		"its caller leaves":               {river: &river{length: 100, pause: 300 * time.Millisecond}, cursor: "0", within: 500 * time.Millisecond, want: "error: context deadline exceeded"},
		"its caller leaves at the middle": {river: &river{length: 2, pause: 300 * time.Millisecond}, cursor: "0", within: 550 * time.Millisecond, want: "error: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				got := shortPage(Yield[filterArgs, incident](c.river.yield).Check(ctx, filterArgs{}, c.cursor))
				if got != c.want || c.river.begun != 1 || c.river.ended != 1 {
					t.Errorf("%s, want %s; %d iterations, %d ended", got, c.want, c.river.begun, c.river.ended)
				}
			})
		})
	}
}

// SRV-1: what would lose occurrences for who goes on from a cursor is refused, and says what is wrong.
func TestSRV1YieldMistakes(t *testing.T) {
	type found = events.Found[incident]
	item := &events.Item[incident]{}
	for name, c := range map[string]struct {
		yields []found
		want   string
	}{
		"no cursor":              {[]found{{Item: item}}, "error: the check yielded an occurrence or a position without a cursor"},
		"no cursor at the end":   {[]found{{Item: item, Cursor: "b"}, {Item: item}}, "b to b, at b more"},
		"the cursor of before":   {[]found{{Item: item, Cursor: "a"}}, `error: the check yielded an occurrence with the cursor "a" of the previous position`},
		"one cursor for two":     {[]found{{Item: item, Cursor: "b"}, {Item: item, Cursor: "b"}}, `error: the check yielded an occurrence with the cursor "b" of the previous position`},
		"a position twice":       {[]found{{Cursor: "a"}, {Cursor: "b"}, {Cursor: "b"}}, "at b"},
		"a position at last":     {[]found{{Item: item, Cursor: "b"}, {Cursor: "c"}}, "b to b, at c"},
		"a gap":                  {[]found{{Item: item, Cursor: "b", Truncated: true}, {Item: item, Cursor: "c"}}, "b to c, at c truncated"},
		"a gap in the middle":    {[]found{{Item: item, Cursor: "b"}, {Item: item, Cursor: "c", Truncated: true}}, "b to c, at c truncated"},
		"a gap and nothing else": {[]found{{Cursor: "b", Truncated: true}}, "at b truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			y := Yield[filterArgs, incident](func(context.Context, filterArgs, string) iter.Seq2[found, error] {
				return func(yield func(found, error) bool) {
					for _, f := range c.yields {
						if !yield(f, nil) {
							return
						}
					}
				}
			})
			if got := shortPage(y.Check(t.Context(), filterArgs{}, "a")); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if got := shortPage(Yield[filterArgs, incident](nil).Check(t.Context(), filterArgs{}, "a")); got != "error: the yielding check is nil" {
		t.Error(got)
	}
}

// SRV-1: an iteration that yields the position of the call without end is stopped like any other.
func TestSRV1YieldStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := Yield[filterArgs, incident](func(context.Context, filterArgs, string) iter.Seq2[events.Found[incident], error] {
			return func(yield func(events.Found[incident], error) bool) {
				for yield(events.Found[incident]{Cursor: "a"}, nil) {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*yieldTime)
		defer cancel()
		if got := shortPage(y.Check(ctx, filterArgs{}, "a")); got != "at a" {
			t.Error(got)
		}
	})
}

// SRV-1, PUSH-5: subscribers get each occurrence once, by poll and by push, over an error in the middle; the error is
// told when the check fails at its first step. A subscriber goes on from the cursor of each occurrence.
func TestSRV1YieldDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		r := &river{ids: true, length: 10}
		r.register(t, s)
		l := stream(t, s, `{"name":"e"}`)
		first := poll(t, s, `{"name":"e"}`).Cursor
		synctest.Wait()
		r.set(func() { r.length, r.fails = 250, map[int]error{14: errTest} })
		time.Sleep(10 * time.Second)
		got := pollFrom(t, s, first, "")
		wantStrings(t, "before the error", got.ids(), "n11", "n12", "n13")
		if _, rerr := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *got.Cursor)); rerr == nil || strings.Contains(rerr.Message, "secret") {
			t.Errorf("at the error: %v", rerr)
		}
		r.set(func() { r.fails = nil })
		time.Sleep(time.Minute)
		var want []string
		for n := 11; n <= 250; n++ {
			want = append(want, fmt.Sprint("n", n))
		}
		wantStrings(t, "push", l.ids(), want...)
		if shorts := l.shorts(); !slices.Contains(shorts, "error") || shorts[4] != "error" {
			t.Errorf("push is told: %.100q", shorts)
		}
		var ids []string
		for more := true; more; {
			got = pollFrom(t, s, got.Cursor, `,"maxEvents":7`)
			ids, more = append(ids, got.ids()...), *got.HasMore
		}
		wantStrings(t, "poll", ids, want[3:]...)

		// Each event's cursor is the upstream's, so that what follows it is asked for, and nothing before it.
		for _, f := range l.frames() {
			if f.params.EventID != "n57" {
				continue
			}
			r.set(func() { r.asked = nil })
			wantStrings(t, "from the middle", pollFrom(t, s, f.params.Cursor, `,"maxEvents":2`).ids(), "n58", "n59")
			if r.asked[0] != "57" {
				t.Errorf("asked from %q", r.asked)
			}
		}
	})
}

// OCC-2: a yielded event without an id has the same one wherever the iteration began.
func TestOCC2Yielded(t *testing.T) {
	s := newServer(t, Options{})
	r := &river{}
	r.register(t, s)
	start := poll(t, s, `{"name":"e"}`).Cursor
	r.set(func() { r.length = 5 })
	whole := pollFrom(t, s, start, "").ids()
	part := pollFrom(t, s, pollFrom(t, s, start, `,"maxEvents":2`).Cursor, "").ids()
	if len(whole) != 5 || !equalStrings(whole[2:], part) || len(slices.Compact(slices.Sorted(slices.Values(whole)))) != 5 {
		t.Errorf("%q, and from the middle %q", whole, part)
	}
}

// ERR-4: a check that goes on after it was broken off panics, which fails the request and nothing else.
func TestSRV1YieldPanics(t *testing.T) {
	s := newServer(t, Options{})
	stray := Yield[filterArgs, incident](func(_ context.Context, _ filterArgs, cursor string) iter.Seq2[events.Found[incident], error] {
		return func(yield func(events.Found[incident], error) bool) {
			yield(events.Found[incident]{Cursor: "0"}, nil)
			yield(events.Found[incident]{Cursor: "1"}, nil)
		}
	})
	if err := RegisterCheck(s, incidentType("e"), stray.Check, Hooks[filterArgs, incident]{}); err != nil {
		t.Fatal(err)
	}
	if _, rerr := call(s, "", wire.MethodPoll, `{"name":"e"}`); rerr == nil || strings.Contains(rerr.Message+string(rerr.Data), "iteration") {
		t.Errorf("%v", rerr)
	}
}
