package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// becomes fails unless that became of the occurrence at a position, by principals.
func (b *bed) becomes(p store.Position, want ...string) {
	b.t.Helper()
	var got []string
	for after := ""; ; {
		found, next, err := b.Deliveries(b.t.Context(), "e", p, after, 2)
		must(b.t, err)
		for _, d := range found {
			got = append(got, fmt.Sprintf("%s %s %d", d.Principal, d.Outcome, len(d.Attempts)))
			for _, m := range d.Attempts {
				if m.Position != p {
					b.t.Errorf("%+v", m)
				}
			}
		}
		if after = next; after == "" {
			break
		}
	}
	if strings.Join(sorted(got), ", ") != strings.Join(sorted(want), ", ") {
		b.t.Errorf("at %d %q, want %q", p, got, want)
	}
}

// SRV-8: an operator finds an occurrence by its id, and what became of it everywhere.
func TestSRV8Occurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		b.event("other")
		ctx := t.Context()
		ann, bob := b.at("ann", "/a"), b.at("bob", "/b")
		must(t, b.Pause(ctx, bob))
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.on(refuse)
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		b.at("carl", "/c")
		b.becomes(1, "ann accepted 1", "bob waiting 0", "carl passed 0")
		b.becomes(2, "ann waiting 3", "bob waiting 0", "carl passed 0")
		settle(20 * time.Minute)
		b.becomes(2, "ann failed 5", "bob waiting 0", "carl passed 0")
		must(t, b.End(ctx, bob, nil))
		r.on(nil)
		if made, err := b.SendAgain(ctx, ann, "2", time.Time{}); err != nil || made.AskedBy == "" {
			t.Errorf("%+v %v", made, err)
		}
		b.becomes(2, "ann accepted 6", "carl passed 0")

		for _, event := range []string{"", "e"} {
			found, whole, err := b.FindOccurrences(ctx, event, "2")
			if err != nil || !whole || len(found) != 1 || found[0].Position != 2 || found[0].Event != "e" || found[0].Cursor == "" || len(found[0].Data) == 0 {
				t.Errorf("%+v %v %v", found, whole, err)
			}
			must(t, b.Replay(ctx, ann, found[0].Cursor, 0)) // what follows it
		}
		if found, whole, err := b.FindOccurrences(ctx, "other", "2"); err != nil || !whole || len(found) != 0 {
			t.Errorf("%+v %v %v", found, whole, err)
		}
		_, _, err := b.FindOccurrences(ctx, "gone", "2")
		missing(t, "of an unknown type", err)
		if o, err := b.Occurrence(ctx, "e", 1); err != nil || o.EventID != "1" || o.Position != 1 {
			t.Errorf("%+v %v", o, err)
		}
		for _, p := range []store.Position{0, 3, 1 << 62} {
			missing(t, fmt.Sprint("at ", p), errorOf(b.Occurrence(ctx, "e", p)))
			_, _, err := b.Deliveries(ctx, "e", p, "", 1)
			missing(t, fmt.Sprint("at ", p), err)
		}
		missing(t, "of no type", errorOf(b.Occurrence(ctx, "", 1)))
	})
}

// SRV-8: looking for an id costs a bounded number of reads, and says when that was not all.
func TestSRV8FindIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{without: true})
		e := b.event("e")
		const n = 3 * operate.SeekBatch
		for i := range n {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		for _, c := range []struct {
			id    string
			left  int
			found int
			whole bool
		}{{"0", n, 1, true}, {"0", 2 * operate.SeekBatch, 0, false}, {fmt.Sprint(n - 1), operate.SeekBatch, 1, false}, {"x", n + 1, 0, true}} {
			found, whole, err := b.SearchEventID(t.Context(), "e", c.id, &c.left)
			if err != nil || len(found) != c.found || whole != c.whole {
				t.Errorf("%+v: %+v %v %v", c, found, whole, err)
			}
		}
	})
}

// SRV-8, REP-13: attempts tell what became of it at subscriptions of another process.
func TestSRV8OccurrenceElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		owner, other := p.owner, p.other
		p.e.Emit(incident{ID: "1"})
		settle(time.Minute)
		owner.becomes(1, "ann accepted 1")
		other.becomes(1, "ann accepted 1")
		if found, _, err := other.Deliveries(t.Context(), "e", 1, "", 10); err != nil || found[0].State != operator.StateActive {
			t.Errorf("%+v %v", found, err)
		}
	})
}
