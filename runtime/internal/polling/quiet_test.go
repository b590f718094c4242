package polling_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling/pollingtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

func noTick(until time.Time) time.Time { return until }

// COAL-3: what follows the first occurrence is collected until nothing has come for Quiet, at the latest to the end of
// the wait or a bound of the answer; the cursors are of all of it.
func TestCOAL3AnyCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, checked, both := pollingtest.New(t, "a", true, false), pollingtest.New(t, "b", true, false),
			pollingtest.New(t, "checked", false, true), pollingtest.New(t, "both", true, true)
		var cursors [4][]byte
		all := func(change func(*polling.Request)) (polls []*polling.Request) {
			for i, e := range []*pollingtest.Type{a, b, checked, both} {
				polls = append(polls, request(t, e, `{}`, time.Minute, cursors[i]))
			}
			polls[0].Quiet = 5 * time.Second
			if change != nil {
				change(polls[0])
			}
			return polls
		}
		unchanged := func(*polling.Request) {}
		emit := func(e *pollingtest.Type) func(id string) {
			return func(id string) { e.Emit(incident{ID: id, Service: strings.Repeat("x", 1000)}) }
		}
		type happens struct {
			after time.Duration
			do    func(id string)
		}
		s := time.Second
		for i, c := range []struct {
			change func(*polling.Request)
			events []happens
			want   int
			after  time.Duration
			more   bool
		}{
			{unchanged, []happens{{2 * s, emit(a)}}, 1, 7 * s, false},
			{unchanged, []happens{{2 * s, emit(a)}, {4 * s, emit(b)}, {8 * s, emit(a)}, {11 * s, checked.Put}, {15 * s, both.Put}, {19 * s, emit(both)}}, 6, 24 * s, false},
			{unchanged, []happens{{2 * s, emit(a)}, {8 * s, emit(a)}}, 1, 7 * s, false},
			{unchanged, nil, 1, 5 * s, false}, // the one that was left
			{unchanged, nil, 0, 60 * s, false},
			{func(q *polling.Request) { q.Quiet = 0 }, []happens{{2 * s, emit(a)}, {3 * s, emit(b)}}, 1, 2 * s, false},
			{func(q *polling.Request) { q.Wait = 0 }, nil, 1, 0, false},
			{func(q *polling.Request) { q.Wait = 10 * s }, []happens{{3 * s, emit(a)}, {6 * s, emit(b)}, {9 * s, emit(both)}, {11 * s, emit(b)}}, 3, 10 * s, false},
			{func(q *polling.Request) { q.Limit = 3 }, []happens{{1 * s, emit(a)}, {2 * s, emit(both)}, {3 * s, emit(a)}, {3 * s, emit(b)}}, 3, 2 * s, false}, // and the one that was left
			{func(q *polling.Request) { q.Limit = 1 }, nil, 1, 0, true},
			{unchanged, nil, 1, 5 * s, false},
			{func(q *polling.Request) { q.MaxPage = 140_000 }, []happens{{s, emit(a)}, {2 * s, emit(b)}, {3 * s, emit(a)}, {4 * s, emit(a)}, {4500 * time.Millisecond, emit(a)},
				{4600 * time.Millisecond, emit(b)}, {4700 * time.Millisecond, both.Put}, {4800 * time.Millisecond, emit(b)}, {4900 * time.Millisecond, emit(b)}}, 0, 0, true},
		} {
			for j, e := range c.events {
				time.AfterFunc(e.after, func() { e.do(fmt.Sprintf("%d-%d", i, j)) })
			}
			began := time.Now()
			found, each, _, err := polling.Any(t.Context(), all(c.change), noTick)
			if err != nil {
				t.Fatal(err)
			}
			given, more := 0, false
			for j := range each {
				cursors[j], given, more = each[j].Cursor, given+len(each[j].Out), more || each[j].More
			}
			if i == 11 { // a bound in bytes: some are left, none is lost
				time.Sleep(10 * s)
				rest, _, _, err := polling.Any(t.Context(), all(nil), noTick)
				if n := strings.Fields(ids(found) + " " + ids(rest)); err != nil || len(found) == len(c.events) || len(n) != len(c.events) || !more {
					t.Errorf("%v, %v: %q and %q", err, more, ids(found), ids(rest))
				}
				continue
			}
			if len(found) != c.want || given != c.want || more != c.more || time.Since(began) != c.after {
				t.Errorf("%d: %q after %v, more %v; want %d after %v", i, ids(found), time.Since(began), more, c.want, c.after)
			}
			if i == 2 || i == 5 || i == 7 || i == 8 {
				time.Sleep(2 * s)
			}
		}
		if n := a.Held.Load() + b.Held.Load() + checked.Held.Load() + both.Held.Load(); n != 0 {
			t.Errorf("%d polls wait", n)
		}
	})
}

// COAL-3: what was collected is given though a poll cannot go on, with a cursor for that one from which its next poll
// tells why; a caller that is gone gets nothing.
func TestCOAL3AnyFailsWhileItCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, checked := pollingtest.New(t, "a", true, false), pollingtest.New(t, "b", true, false), pollingtest.New(t, "checked", false, true)
		var cursors [3][]byte
		all := func() (polls []*polling.Request) {
			for i, e := range []*pollingtest.Type{a, b, checked} {
				polls = append(polls, request(t, e, `{}`, time.Minute, cursors[i]))
			}
			polls[0].Quiet = 10 * time.Second
			return polls
		}
		any := func(want string, after time.Duration) {
			t.Helper()
			began := time.Now()
			found, each, _, err := polling.Any(t.Context(), all(), noTick)
			if err != nil || ids(found) != want || time.Since(began) != after {
				t.Fatalf("%q after %v, %v; want %q after %v", ids(found), time.Since(began), err, want, after)
			}
			for i := range each {
				cursors[i] = each[i].Cursor
			}
		}
		time.AfterFunc(time.Second, func() { checked.Put("1") })
		time.AfterFunc(2500*time.Millisecond, func() { checked.Put("2"); a.Emit(incident{ID: "3"}) })
		time.AfterFunc(3500*time.Millisecond, func() { checked.Fail(errors.New("the upstream is down")); checked.Put("4") })
		any("1 3 2", 4*time.Second)
		if _, _, wrong, err := polling.Any(t.Context(), all(), noTick); err == nil || wrong != 2 {
			t.Errorf("%d: %v", wrong, err)
		}
		checked.Fail(nil)
		any("4", 10*time.Second)
		// What a poll has found before its check fails comes with it.
		time.AfterFunc(time.Second, func() { a.Emit(incident{ID: "5"}) })
		time.AfterFunc(1500*time.Millisecond, func() {
			checked.Put("6")
			checked.Put("7")
			checked.FailAfter(4, errors.New("the upstream is down")) // after "6"
		})
		any("5 6", 2*time.Second)
		checked.Fail(nil)
		any("7", 10*time.Second)
		time.AfterFunc(time.Second, func() { b.Emit(incident{ID: "8"}) })
		time.AfterFunc(2*time.Second, b.Remove)
		any("8", 2*time.Second)

		e := pollingtest.New(t, "e", true, false)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, func() { e.Emit(incident{ID: "1"}) })
		time.AfterFunc(2*time.Second, cancel)
		q := request(t, e, `{}`, time.Minute, nil)
		q.Quiet = 10 * time.Second
		if found, _, _, err := polling.Any(ctx, []*polling.Request{q}, noTick); !errors.Is(err, context.Canceled) || found != nil {
			t.Errorf("%q, %v", ids(found), err)
		}
		time.AfterFunc(time.Second, func() { e.Emit(incident{ID: "2"}) })
		time.AfterFunc(3*time.Second, func() { close(e.Closing) }) // SRV-6
		began := time.Now()
		if found, _, _, err := polling.Any(t.Context(), []*polling.Request{q}, noTick); err != nil || len(found) == 0 || time.Since(began) != 3*time.Second {
			t.Errorf("at the end: %q after %v, %v", ids(found), time.Since(began), err)
		}
	})
}

// COAL-3: a poll of a check, or of a type without replay, that wants the past begins now and says so; it waits all the
// same. Of a type with both sources what was emitted has a past.
func TestCOAL3AnySince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, checked, both, none := pollingtest.New(t, "log", true, false), pollingtest.New(t, "checked", false, true),
			pollingtest.New(t, "both", true, true), pollingtest.New(t, "none", true, false)
		none.Kernel().NoReplay = true
		for _, e := range []*pollingtest.Type{log, both, none} {
			e.Emit(incident{ID: "old"})
		}
		checked.Put("old")
		time.Sleep(20 * time.Minute)
		for _, e := range []*pollingtest.Type{log, both, none} {
			e.Emit(incident{ID: "1"})
		}
		checked.Put("1")
		both.Put("checked")
		time.Sleep(5 * time.Minute)
		for _, c := range []struct {
			e         *pollingtest.Type
			want      string
			truncated bool
		}{{log, "1", false}, {checked, "2", true}, {both, "1", true}, {none, "2", true}} {
			time.AfterFunc(3*time.Second, func() {
				if c.e == checked {
					c.e.Put("2")
				} else {
					c.e.Emit(incident{ID: "2"})
				}
			})
			q := request(t, c.e, `{}`, time.Minute, nil)
			q.Replay.Since = &topic.Since{Age: 10 * time.Minute}
			found, each, _, err := polling.Any(t.Context(), []*polling.Request{q}, noTick)
			if err != nil || ids(found) != c.want || each[0].Truncated != c.truncated {
				t.Errorf("%s: %q, truncated %v, %v; want %q, %v", c.e.Name(), ids(found), each[0].Truncated, err, c.want, c.truncated)
			}
			time.Sleep(5 * time.Second)
			if c.e == none {
				continue
			}
			next, _, _, err := polling.Any(t.Context(), []*polling.Request{request(t, c.e, `{}`, 0, each[0].Cursor)}, noTick)
			if got := strings.TrimSpace(ids(found) + " " + ids(next)); err != nil || got != "1 2" && (c.e != checked || got != "2") {
				t.Errorf("%s: in all %q, %v", c.e.Name(), got, err)
			}
		}
	})
}
