package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SRV-5: subscriptions with the same arguments share the calls of a check, which end with the last of them.
func TestSRV5Shared(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.happen("before")
		a, b := s.open("", false), s.open("", false)
		if s.feeds.Len() != 1 {
			t.Fatalf("%d feeds", s.feeds.Len())
		}
		s.questions()
		s.happen("1", "2", "3")
		for name, st := range map[string]*stream{"a": a, "b": b} {
			if got := st.read(2 * interval); got != "1 2 3" || st.gaps != 0 {
				t.Errorf("%s got %q, %d gaps", name, got, st.gaps)
			}
		}
		if n := s.questions(); n < 2 || n > 7 {
			t.Errorf("asked %d times in four intervals with a second page", n)
		}
		a.Close()
		s.happen("4")
		if got := b.read(2 * interval); got != "4" {
			t.Errorf("b goes on with %q", got)
		}
		b.Close()
		s.questions()
		time.Sleep(10 * interval)
		if n := s.questions(); n != 0 {
			t.Errorf("asked %d times for nobody", n)
		}
	})
}

// CUR-7, CUR-2: a cursor goes on where it was taken, in a feed of its own and in one that is ahead of it; what is none
// of the feed's begins now and says so.
func TestCUR7GoesOn(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		first := s.open("", false)
		s.happen("1", "2")
		first.read(2 * interval)
		at := first.cursor()
		first.Close()
		s.happen("3", "4", "5")
		alone := s.open(at, false)
		if got := alone.read(2 * interval); got != "3 4 5" {
			t.Errorf("alone: %q", got)
		}
		behind := s.open(at, false)
		if got := behind.read(2 * interval); got != "3 4 5" || behind.gaps != 0 {
			t.Errorf("behind: %q", got)
		}
		s.happen("6")
		for _, st := range []*stream{alone, behind} {
			if got := st.read(2 * interval); got != "6" {
				t.Errorf("then: %q", got)
			}
			st.Close()
		}
		for _, text := range []string{"rubbish", wire.Cursor{Kind: wire.CheckCursor, Name: 7, Feed: 1, Upstream: "0"}.String()} {
			if s.feeds.Owns(s.check, s.args(), "ann", text) {
				t.Errorf("%q is the feed's", text)
			}
			st := s.open(text, true)
			if got := st.read(2 * interval); got != "" {
				t.Errorf("from %q: %q", text, got)
			}
			st.Close()
		}
		if !s.feeds.Owns(s.check, s.args(), "ben", at) {
			t.Error("a shared check's cursor is one principal's")
		}
		later := s.openAt(Start{Replay: replay(at), Later: true}, false)
		if got := later.read(2 * interval); got != "3 4 5 6" {
			t.Errorf("later: %q", got)
		}
		later.Close()
	})
}

// PUSH-5, PUSH-7: who subscribes is told of failures, which are tried again ever more rarely, and of what the upstream
// no longer has.
func TestPUSH5Failures(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st := s.open("", false)
		st.read(interval / 2)
		s.questions()
		s.set(func() { s.fail = errors.New("down") })
		if got := st.read(8 * interval); got != "" || len(st.failed) == 0 {
			t.Errorf("%q, told of %d failures", got, len(st.failed))
		}
		if n := s.questions(); n < 3 || n > 9 {
			t.Errorf("asked %d times", n)
		}
		var e *events.Error
		if !errors.As(st.failed[0], &e) || e.Kind != wire.UpstreamError || strings.Contains(string(e.Data), "down") {
			t.Errorf("%v", st.failed[0])
		}
		s.happen("1", "2", "3")
		s.set(func() { s.fail, s.kept = nil, 2 })
		if got := st.read(10 * interval); got != "3" || st.gaps != 1 {
			t.Errorf("%q with %d gaps", got, st.gaps)
		}
		st.Close()
		s.set(func() { s.fail = io.ErrUnexpectedEOF })
		if _, _, err := Open(t.Context(), Seat{Feeds: s.feeds, Bell: st.wake}, s.check, s.args(), Start{}); !errors.As(err, &e) {
			t.Errorf("%v", err)
		}
	})
}

// POLL-7: a poll of a check stops within a page whose entries are dear. A page of cheap ones is examined as a whole.
func TestPOLL7Units(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		for _, tc := range []struct {
			payload, scan, want int
		}{{2, 1, 10}, {2, 30, 10}, {3 * topic.UnitBytes, 1, 3}, {3 * topic.UnitBytes, 30, 8}, {3 * topic.UnitBytes, 100, 10}} {
			p := &Poll{reader: reader{stepWalk: stepWalk{u: &upstream{args: s.args()}}}, found: &step{cursor: "10"}}
			for i := range 10 {
				e := store.Entry{EventID: fmt.Sprint(i + 1), Cursor: fmt.Sprint(i + 1), Data: json.RawMessage(`"` + strings.Repeat("a", tc.payload) + `"`)}
				p.found.entries = append(p.found.entries, stepEntry{Entry: e})
			}
			got, err := p.Next(t.Context(), nil, topic.Bound{Outcomes: 20, Bytes: 1 << 20, Scan: tc.scan})
			if err != nil || len(got.Out) != tc.want || got.More != (tc.want < 10) || string(p.Cursor()) != fmt.Sprintf(`"%d"`, tc.want) {
				t.Errorf("payloads of %d bytes and %d units: %d entries, more %v, at %s: %v", tc.payload, tc.scan, len(got.Out), got.More, p.Cursor(), err)
			}
		}
	})
}

// A server that shuts down starts no calls, and a changed definition ends those of the one before.
func TestEnds(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st := s.open("", false)
		s.check = &Check{Ask: s.ask, Interval: interval}
		s.feeds.Adopt(s.check)()
		st.Rebind(s.check, s.args())
		s.happen("1")
		if got := st.read(2 * interval); got != "1" {
			t.Errorf("after the change: %q", got)
		}
		st.Close()
		s.set(func() { s.closed = true })
		quiet := s.open("", false)
		s.questions()
		if got := quiet.read(5 * interval); got != "" || len(quiet.failed) != 0 {
			t.Errorf("after the shutdown it got %q, told of %v", got, quiet.failed)
		}
		if n := s.questions(); n != 0 {
			t.Errorf("asked %d times after the shutdown", n)
		}
		quiet.Close()
	})
}

// POLL-1, POLL-6: a poll asks from its cursor, page by page within its bounds, and its cursor is that of the last that
// it took; without one it is at the head.
func TestPolls(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		poll := func(cursor string, most int) (ids, next string, more, truncated, gap bool) {
			t.Helper()
			_, head := s.emits.Bounds()
			p, truncated, err := OpenPoll(t.Context(), Seat{Feeds: s.feeds, Principal: "ann", Bell: topic.NewWake()}, s.check, s.args(),
				Start{Replay: replay(cursor), Head: head})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			text := p.Cursor()
			if p.Replays() != (cursor != "" && !truncated) {
				t.Errorf("from %q it replays: %v", cursor, p.Replays())
			}
			if p.Replays() {
				got, err := p.Next(t.Context(), nil, topic.Bound{Outcomes: most, Bytes: 1 << 20, Scan: 1000})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range got.Out {
					ids += " " + o.Entry().EventID
				}
				if text, more, gap = p.Cursor(), got.More, got.Gap; len(got.Out) > 0 && more {
					text = p.CursorAfter(got.Out, len(got.Out))
				}
			}
			if p.NextPoll() != interval || !p.Park() && s.check.Emits {
				t.Errorf("next %v", p.NextPoll())
			}
			p.Unpark()
			if err := json.Unmarshal(text, &next); err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(ids), next, more, truncated, gap
		}
		for _, emits := range []bool{false, true} {
			s.set(func() { s.items, s.kept = nil, 0 })
			s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: emits}
			s.feeds.Adopt(s.check)()
			_, at, _, _, _ := poll("", 10)
			s.happen("1", "2", "3", "4", "5")
			ids, next, more, truncated, gap := poll(at, 3)
			if ids != "1 2 3" || !more || truncated || gap {
				t.Errorf("first: %q, more %v, truncated %v, gap %v", ids, more, truncated, gap)
			}
			ids, end, more, _, _ := poll(next, 10)
			if ids != "4 5" || more {
				t.Errorf("rest: %q, more %v", ids, more)
			}
			if ids, _, _, truncated, _ := poll("rubbish", 10); ids != "" || !truncated {
				t.Errorf("from rubbish: %q, truncated %v", ids, truncated)
			}
			s.set(func() { s.kept = 4 })
			if ids, _, _, _, gap := poll(at, 10); ids != "5" || !gap {
				t.Errorf("of what is gone: %q, gap %v", ids, gap)
			}
			if ids, again, _, _, _ := poll(end, 10); ids != "" || again != end {
				t.Errorf("at the end: %q, %s and not %s", ids, again, end)
			}
		}
	})
}

// SRV-1: of an occurrence that is emitted and found by a check one is delivered, the one that came first, and the
// cursor carries both places.
func TestSRV1Both(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: true}
		s.feeds.Adopt(s.check)()
		emit := func(id string) {
			t.Helper()
			if first := s.feeds.Emitted(id); !first {
				t.Errorf("%s was emitted before", id)
			}
			if _, err := s.emits.Append(t.Context(), store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}, true); err != nil {
				t.Fatal(err)
			}
		}
		st := s.open("", false)
		emit("a")
		s.happen("a", "b")
		if got := st.read(2 * interval); got != "a b" {
			t.Errorf("emitted first: %q", got)
		}
		at := st.cursor()
		s.happen("c")
		if got := st.read(2 * interval); got != "c" {
			t.Errorf("found first: %q", got)
		}
		emit("c")
		emit("d")
		if got := st.read(2 * interval); got != "d" || st.gaps != 0 {
			t.Errorf("then emitted: %q", got)
		}
		st.Close()
		again := s.open(at, false)
		got := strings.Fields(again.read(2 * interval)) // in any order of the two places
		if slices.Sort(got); !slices.Equal(got, []string{"c", "d"}) {
			t.Errorf("again: %q", got)
		}
		again.Close()
		s.feeds.NotEmitted("d")
		if !s.feeds.Emitted("d") {
			t.Error("what failed to be appended counts as emitted")
		}
	})
}

// SUB-1, CUR-7: the cursor at which a subscription begins is fixed at once: of now, of what was asked for, or of what
// is left of it; a check that does not answer in time is the upstream's failure.
func TestSUB1Fix(t *testing.T) {
	for _, emits := range []bool{false, true} {
		t.Run(fmt.Sprint("emits=", emits), func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: emits}
				s.feeds.Adopt(s.check)()
				fix := func(cursor string) (string, bool) {
					t.Helper()
					_, head := s.emits.Bounds()
					text, truncated, err := s.feeds.Fix(t.Context(), s.check, s.args(), "ann", head, replay(cursor))
					if err != nil {
						t.Fatal(err)
					}
					return text, truncated
				}
				s.happen("1", "2")
				now, truncated := fix("")
				if truncated || !s.feeds.Owns(s.check, s.args(), "ann", now) {
					t.Errorf("now: %s, truncated %v", now, truncated)
				}
				s.happen("3", "4")
				if text, truncated := fix(now); text != now || truncated {
					t.Errorf("what was asked for: %s and not %s", text, now)
				}
				st := s.open(now, false)
				if got := st.read(2 * interval); got != "3 4" {
					t.Errorf("from there: %q", got)
				}
				if text, _ := fix(""); text != st.cursor() {
					t.Errorf("of a feed in use: %s and not %s", text, st.cursor())
				}
				st.Close()
				s.set(func() { s.kept = 3 })
				left, truncated := fix(now)
				if !truncated {
					t.Error("what is gone is not told")
				}
				rest := s.open(left, false)
				if got := rest.read(2 * interval); got != "4" {
					t.Errorf("what is left: %q", got)
				}
				rest.Close()
				s.set(func() { s.fail = errors.New("down") })
				if text, truncated := fix(now); truncated || text == "" {
					t.Errorf("of a check that fails: %q", text)
				}
				if _, _, err := s.feeds.Fix(t.Context(), s.check, s.args(), "ann", 0, topic.Replay{}); err == nil {
					t.Error("a check that fails tells now")
				}
				slow := &Check{Interval: interval, Shared: true, Emits: emits, Ask: func(ctx context.Context, _ any, _ string) (Page, error) {
					<-ctx.Done()
					return Page{}, ctx.Err()
				}}
				var e *events.Error
				if _, _, err := s.feeds.Fix(t.Context(), slow, s.args(), "ann", 0, topic.Replay{}); !errors.As(err, &e) || e.Kind != wire.UpstreamError {
					t.Errorf("a check that hangs: %v", err)
				}
			})
		})
	}
}

// OCC-2: an item without an id has one that is the same whenever it is found again; what is no occurrence is passed
// over.
func TestOCC2Items(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st := s.open("", false)
		at := st.cursor()
		s.set(func() {
			s.page = 10
			s.items = append(s.items, Item{Data: json.RawMessage(`{"n":1}`)}, Item{ID: "bad", Err: errors.New("not encodable")},
				Item{ID: strings.Repeat("x", 10_000), Data: json.RawMessage(`{}`)}, Item{ID: "time", Text: "2026-01-02T03:04:05+01:00", Data: json.RawMessage(`{}`)})
		})
		got := st.read(2 * interval)
		ids := strings.Fields(got)
		if len(ids) != 2 || ids[1] != "time" {
			t.Errorf("%.80q", got)
		}
		st.Close()
		again := s.open(at, false)
		if found := again.read(2 * interval); found != got {
			t.Errorf("again: %.80q and not %.80q", found, got)
		}
		again.Close()
	})
}

// SRV-5, CUR-5: a subscription that begins behind others causes calls until it has reached them, and then shares theirs.
// It is told of failures, which are retried, and of occurrences that are too old to replay.
func TestCUR5CatchesUp(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		first := s.open("", false)
		at := first.cursor()
		first.Close()
		s.happen("1", "2", "3", "4", "5")
		ahead := s.open("", false)
		behind := s.open(at, false)
		s.set(func() { s.fail = errors.New("down") })
		if got := behind.read(2 * interval); got != "1 2" || len(behind.failed) == 0 {
			t.Errorf("while the upstream is down: %q, %v", got, behind.failed)
		}
		s.set(func() { s.fail = nil })
		if got := behind.read(4 * interval); got != "3 4 5" || behind.gaps != 0 {
			t.Errorf("then: %q, %d gaps", got, behind.gaps)
		}
		s.happen("6")
		for name, st := range map[string]*stream{"ahead": ahead, "behind": behind} {
			if got := st.read(3 * interval); got != "6" {
				t.Errorf("%s: %q", name, got)
			}
		}
		time.Sleep(10 * interval)
		s.happen("7")
		ahead.read(2 * interval)
		age := 5 * interval
		for name, cursor := range map[string]string{"by a call": at, "by a shared result": behind.cursor()} {
			st := s.openAt(Start{Replay: topic.Replay{Cursor: &cursor, MaxAge: &age}}, name == "by a call")
			if got := st.read(2 * interval); got != "7" {
				t.Errorf("not older than %v, %s: %q", age, name, got)
			}
			st.Close()
		}
		ahead.Close()
		behind.Close()
	})
}

// CUR-7: a poll that is rebound before it has read returns a cursor of the feed under the new definition.
func TestCUR7ReboundPoll(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		st := s.open("", false)
		at := st.cursor()
		st.Close()
		s.happen("1")
		p, _, err := OpenPoll(t.Context(), Seat{Feeds: s.feeds, Principal: "ann"}, s.check, s.args(), Start{Replay: replay(at)})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s.check = &Check{Ask: s.ask, Interval: interval}
		s.feeds.Adopt(s.check)()
		p.Rebind(s.check, s.args())
		got, err := p.Next(t.Context(), nil, topic.Batch(topic.PullBatch))
		var text string
		if err != nil || len(got.Out) != 1 || json.Unmarshal(p.Cursor(), &text) != nil || !s.feeds.Owns(s.check, s.args(), "ann", text) {
			t.Errorf("%+v, %v, then %s", got, err, p.Cursor())
		}
	})
}

// EVOL-1: a subscription to both sources goes on from both places under another definition.
func TestRebindBoth(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: true}
		s.feeds.Adopt(s.check)()
		st := s.open("", false)
		st.read(interval / 2)
		s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: true}
		stop := s.feeds.Adopt(s.check)
		s.happen("1")
		st.Rebind(s.check, s.args())
		stop()
		if got := st.read(2 * interval); got != "1" || st.gaps != 0 {
			t.Errorf("%q, %d gaps", got, st.gaps)
		}
		st.Close()
	})
}

// OCC-2: a check's events without ids are told apart by the cursor under which they are found. The same data found
// again later is another event, which a client that drops repeats does not drop; read again from one cursor it is the
// same.
func TestOCC2SameDataLater(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.page = 1
		st := s.open("", false)
		start := st.cursor()
		var live []string
		for range 3 {
			s.happen("")
			live = append(live, st.read(2*interval))
		}
		st.Close()
		seen := map[string]bool{}
		for _, id := range live {
			if seen[id] || !strings.HasPrefix(id, "chk_") {
				t.Errorf("ids %q", live)
			}
			seen[id] = true
		}
		for range 2 {
			again := s.open(start, false)
			if got := again.read(2 * interval); got != strings.Join(live, " ") {
				t.Errorf("from the cursor before them: %q, want %q", got, live)
			}
			again.Close()
		}
	})
}
