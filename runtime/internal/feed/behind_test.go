package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// PUSH-7, SRV-5: a stream that is read so slowly that the feed no longer has the results at its position causes calls
// from there. It gets each occurrence once, in order and without a gap, and shares the calls again afterwards.
func TestPUSH7SlowerThanTheFeed(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		s.page = 100
		slow, fast := s.open("", false), s.open("", false)
		var want []string
		for i := range 1500 {
			want = append(want, fmt.Sprint(i))
		}
		s.happen(want...)
		if got := fast.read(2 * interval); got != strings.Join(want, " ") || fast.gaps != 0 {
			t.Errorf("fast got %d bytes, %d gaps", len(got), fast.gaps)
		}
		if got := slow.read(2 * interval); got != strings.Join(want, " ") || slow.gaps != 0 {
			t.Errorf("slow got %d bytes, %d gaps", len(got), slow.gaps)
		}
		s.questions()
		s.happen("later")
		for name, st := range map[string]*stream{"fast": fast, "slow": slow} {
			if got := st.read(2 * interval); got != "later" {
				t.Errorf("%s then got %q", name, got)
			}
			st.Close()
		}
		if n := s.questions(); n > 6 {
			t.Errorf("asked %d times for one feed in four intervals", n)
		}
	})
}

// CUR-7, SRV-5: a stream whose cursor is ahead of the shared feed, such as one that a poll has given, gets what follows
// it once, soon, and shares the feed from then on.
func TestCUR7AheadOfTheFeed(t *testing.T) {
	asking(t, func(t *testing.T, s *service) {
		behind := s.open("", false)
		behind.read(interval / 4)
		s.happen("1", "2")
		p, _, err := OpenPoll(t.Context(), Seat{Feeds: s.feeds, Principal: "ann"}, s.check, s.args(), Start{})
		if err != nil {
			t.Fatal(err)
		}
		var at string
		if err := json.Unmarshal(p.Cursor(), &at); err != nil {
			t.Fatal(err)
		}
		p.Close()
		ahead := s.open(at, false)
		if got := ahead.read(interval / 4); got != "" || ahead.gaps != 0 {
			t.Errorf("it got %q", got)
		}
		s.happen("3")
		if got := ahead.read(2 * interval); got != "3" {
			t.Errorf("then %q", got)
		}
		if got := behind.read(2 * interval); got != "1 2 3" || behind.gaps != 0 {
			t.Errorf("the other one %q", got)
		}
		ahead.Close()
		behind.Close()
	})
}

// PUSH-5: a page with no cursor, or with one that is too long to be given to callers, is a failure of the upstream: who
// subscribes is told of it, nothing of the page counts, and it is asked again.
func TestPUSH5BadCursors(t *testing.T) {
	for name, bad := range map[string]string{"none": "", "too long": strings.Repeat("x", MaxUpstream+1)} {
		t.Run(name, func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				var broken atomic.Bool // calls in the background read it
				s.check.Ask = func(ctx context.Context, a any, cursor string) (Page, error) {
					p, err := s.ask(ctx, a, cursor)
					if broken.Load() {
						p.Cursor = bad
					}
					return p, err
				}
				st := s.open("", false)
				broken.Store(true)
				s.happen("1")
				var e *events.Error
				if got := st.read(4 * interval); got != "" || len(st.failed) == 0 || !errors.As(st.failed[0], &e) || e.Kind != wire.UpstreamError {
					t.Errorf("%q, told of %v", got, st.failed)
				}
				broken.Store(false)
				if got := st.read(10 * interval); got != "1" || st.gaps != 0 {
					t.Errorf("afterwards %q", got)
				}
				st.Close()
			})
		})
	}
}

// SRV-1, SRV-5: an author's typed check is asked with its arguments, and everything of its page counts: an item that
// cannot be encoded is left out and holds up nothing.
func TestSRV1TypedCheck(t *testing.T) {
	type arguments = map[string]any
	type payload struct {
		N    int `json:"n"`
		Odd  any `json:"odd,omitempty"`
		Next *payload
	}
	away := errors.New("down")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var asked string
	ask := Erase(func(_ context.Context, a arguments, cursor string) (events.Page[payload], error) {
		asked = fmt.Sprint(a["i"], " ", cursor)
		if cursor == "fail" {
			return events.Page[payload]{}, away
		}
		return events.Page[payload]{Cursor: "c", HasMore: true, Truncated: true, NextPoll: time.Minute, Items: []events.Item[payload]{
			{ID: "1", Timestamp: at, Cursor: "b1", Data: payload{N: 1}}, {ID: "2", TimestampText: "2026-01-02T03:04:05Z", Data: payload{N: 2, Odd: func() {}}}}}, nil
	})
	p, err := ask(t.Context(), &arguments{"i": 7}, "b")
	if err != nil || asked != "7 b" || p.Cursor != "c" || !p.HasMore || !p.Truncated || p.NextPoll != time.Minute || len(p.Items) != 2 {
		t.Fatalf("asked with %q: %+v, %v", asked, p, err)
	}
	if it := p.Items[0]; it.ID != "1" || it.Cursor != "b1" || !it.Time.Equal(at) || !strings.Contains(string(it.Data), `"n":1`) || it.Err != nil {
		t.Errorf("%+v", it)
	}
	if it := p.Items[1]; it.ID != "2" || it.Text == "" || it.Err == nil {
		t.Errorf("%+v", it)
	}
	if _, err := ask(t.Context(), &arguments{}, "fail"); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	if Erase[arguments, payload](nil) != nil {
		t.Error("no check is a check")
	}
}

// SRV-1, POLL-4: polls of a type with both sources, however few occurrences they take at a time and whatever has no
// room in an answer, get each once: what was emitted, what the check found, and one of what came both ways.
func TestPOLL4PagesOfBoth(t *testing.T) {
	for most := 1; most <= 5; most++ {
		t.Run(fmt.Sprint(most, " at a time"), func(t *testing.T) {
			asking(t, func(t *testing.T, s *service) {
				s.check = &Check{Ask: s.ask, Interval: interval, Shared: true, Emits: true}
				s.feeds.Adopt(s.check)()
				poll := func(cursor string) (ids []string, next string, more bool) {
					t.Helper()
					_, head := s.emits.Bounds()
					p, truncated, err := OpenPoll(t.Context(), Seat{Feeds: s.feeds, Principal: "ann", Bell: topic.NewWake()}, s.check, s.args(),
						Start{Replay: replay(cursor), Head: head})
					if err != nil || truncated {
						t.Fatal(truncated, err)
					}
					defer p.Close()
					text := p.Cursor()
					if p.Replays() {
						got, err := p.Next(t.Context(), nil, topic.Bound{Outcomes: most, Bytes: 1 << 20, Scan: 1000})
						if err != nil || got.Gap {
							t.Fatal(got.Gap, err)
						}
						for i := range got.Out {
							ids = append(ids, got.Out[i].Entry().EventID)
						}
						text, more = p.Cursor(), got.More
						if n := (len(ids) + 1) / 2; n < len(ids) { // the answer has no room for the rest
							text, ids, more = p.CursorAfter(got.Out, n), ids[:n], true
						}
					}
					if err := json.Unmarshal(text, &next); err != nil {
						t.Fatal(err)
					}
					return ids, next, more
				}
				_, at, _ := poll("")
				for _, id := range []string{"e1", "both", "e2", "e3", "e4"} {
					s.feeds.Emitted(id)
					if _, err := s.emits.Append(t.Context(), store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}, true); err != nil {
						t.Fatal(err)
					}
				}
				s.happen("f1", "both", "f2", "f3")
				count, more := map[string]int{}, true
				for range 30 {
					var ids []string
					if ids, at, more = poll(at); len(ids) > most {
						t.Errorf("%d at once", len(ids))
					}
					for _, id := range ids {
						count[id]++
					}
					if !more {
						break
					}
				}
				for _, id := range []string{"e1", "e2", "e3", "e4", "f1", "f2", "f3", "both"} {
					if count[id] != 1 {
						t.Errorf("%s came %d times", id, count[id])
					}
				}
				if ids, _, _ := poll(at); more || len(ids) > 0 {
					t.Errorf("at the end more is %v, and then came %q", more, ids)
				}
			})
		})
	}
}
