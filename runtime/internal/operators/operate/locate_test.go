package operate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// E1, SRV-8: a replay begins at a time, a position or a kept event id, and says where and how much follows.
func TestSRV8ReplaySince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := t.Context()
		ann := b.at("ann", "/a")
		began := time.Now()
		for i := range 5 {
			e.Emit(incident{ID: fmt.Sprint(i + 1)})
			settle(time.Minute)
		}
		r.want(t, "delivered", "1", "2", "3", "4", "5")
		for _, c := range []struct {
			p     operator.Point
			first string
		}{{operator.Point{Since: began.Add(90 * time.Second)}, "3"}, {operator.Point{Since: began.Add(2 * time.Minute)}, "3"}, {operator.Point{Position: 4}, "4"},
			{operator.Point{EventID: "5"}, "5"}, {operator.Point{EventID: "1"}, "1"}, {operator.Point{Position: 1}, "1"}} {
			at, err := b.Locate(ctx, "e", c.p)
			if err != nil || at.EventID != c.first || fmt.Sprint(at.Position) != c.first || at.Entries != 6-int64(at.Position) || at.Truncated || at.Timestamp.IsZero() {
				t.Errorf("%+v: %+v %v", c.p, at, err)
				continue
			}
			must(t, b.Replay(ctx, ann, at.Cursor, 0))
			settle(time.Minute)
			if got := sorted(r.all()); len(got) != int(at.Entries) || got[0] != c.first {
				t.Errorf("%+v: %q", c.p, got)
			}
		}
		if at, err := b.Locate(ctx, "e", operator.Point{Since: began.Add(-time.Hour)}); err != nil || at.Position != 1 {
			t.Errorf("%+v %v", at, err)
		}
		// What began at the third minute ends before the fifth: those in between come again, and nothing else.
		for _, c := range []struct {
			p    operator.Point
			want []string
		}{{operator.Point{Since: began.Add(90 * time.Second), Until: began.Add(200 * time.Second)}, []string{"3", "4"}},
			{operator.Point{Position: 2, Until: began.Add(2 * time.Minute)}, []string{"2"}}, {operator.Point{EventID: "4", Until: began.Add(time.Hour)}, []string{"4", "5"}}} {
			at, err := b.Locate(ctx, "e", c.p)
			if err != nil || at.EventID != c.want[0] || int(at.Entries) != len(c.want) || int64(at.Last) != int64(at.Position)+at.Entries-1 {
				t.Errorf("%+v: %+v %v", c.p, at, err)
				continue
			}
			must(t, b.Replay(operator.WithActor(ctx, "ivan"), ann, at.Cursor, at.Last))
			settle(time.Minute)
			if got := sorted(r.all()); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q", c.p, got)
			}
		}
		made, err := b.Attempts(ctx, ann)
		must(t, err)
		if made[0].AskedBy != "ivan" || made[len(made)-1].AskedBy == "ivan" {
			t.Errorf("asked by: %+v", made)
		}
		for _, p := range []operator.Point{{Until: time.Now()}, {Position: 4, Until: began.Add(time.Minute)}, {Since: began.Add(time.Minute), Until: began}} {
			if _, err := b.Locate(ctx, "e", p); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("%+v: %v", p, err)
			}
		}
		for _, p := range []operator.Point{{}, {Position: 6}, {Since: time.Now().Add(time.Second)}, {Position: 1, EventID: "1"}} {
			if _, err := b.Locate(ctx, "e", p); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("%+v: %v", p, err)
			}
		}
		missing(t, "an unknown id", errorOf(b.Locate(ctx, "e", operator.Point{EventID: "x"})))
		missing(t, "an unknown type", errorOf(b.Locate(ctx, "x", operator.Point{Position: 1})))
		// An id that is older than what is looked at is not said to be missing.
		for i := range operate.SeekBatch {
			e.Emit(incident{ID: fmt.Sprint("later-", i)})
		}
		if from, err := b.PositionBefore(ctx, "e", "1", operate.SeekBatch+1); err != nil || from != 0 {
			t.Errorf("%d %v", from, err)
		}
		if _, err := b.PositionBefore(ctx, "e", "1", operate.SeekBatch); !errors.Is(err, events.ErrInvalidParams) || !strings.Contains(err.Error(), "older ones were not looked at") {
			t.Errorf("an id beyond the latest entries: %v", err)
		}
	})
}

// E1, SRV-8: a replay under way is shown with who asked for it, and is ended alone or with all of a filter; then
// nothing more of it is delivered.
func TestSRV8EndReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := operator.WithActor(t.Context(), "olga")
		ann, bob := b.at("ann", "/a"), b.at("bob", "/b")
		for i := range 5 {
			e.Emit(incident{ID: fmt.Sprint(i + 1)})
		}
		settle(time.Minute)
		r.all()
		missing(t, "no replay", b.EndReplay(ctx, ann))
		missing(t, "no subscription", b.EndReplay(ctx, "x"))
		at, err := b.Locate(ctx, "e", operator.Point{Position: 2})
		must(t, err)
		begin := func() {
			t.Helper()
			for _, id := range []string{ann, bob} {
				must(t, b.Pause(ctx, id)) // so that it stands
				must(t, b.Replay(ctx, id, at.Cursor, at.Last))
			}
			if i, err := b.Get(ctx, ann); err != nil || i.Replay == nil || *i.Replay != (operator.Replay{AskedBy: "olga", Left: 4}) {
				t.Errorf("under way: %+v %v", i.Replay, err)
			}
		}
		ended := func() {
			t.Helper()
			for _, id := range []string{ann, bob} {
				must(t, b.Unpause(ctx, id))
			}
			settle(time.Minute)
			r.want(t, "after the end")
			if i, err := b.Get(ctx, ann); err != nil || i.Replay != nil || *i.Behind != 0 {
				t.Errorf("ended: %+v %v", i, err)
			}
		}
		begin()
		must(t, b.EndReplay(ctx, ann))
		must(t, b.EndReplay(ctx, bob))
		ended()
		begin()
		replayed := func(i *operator.WebhookInfo) bool { return i.Replay != nil }
		if n := b.each(operator.Filter{Event: "e"}, replayed, b.EndReplay); n != 2 {
			t.Errorf("%d were ended", n)
		}
		ended()
		if n := b.each(operator.Filter{Event: "e"}, replayed, b.EndReplay); n != 0 {
			t.Errorf("%d are under way", n)
		}
	})
}
