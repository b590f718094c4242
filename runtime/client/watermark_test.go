package client

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// CON-2: against a model: whenever a watermark is saved, everything before its cursor is settled, everything settled
// behind it is saved by its id, and nothing else is. So what comes after the cursor and is not among the ids is what
// was not settled, whatever the order in which it was.
func TestCON2Watermark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			id, cursor string // "" between the events of a poll
			place      *ledgerEntry
			settled    bool
		}
		cursors := clientmemory.NewCursors()
		l := &ledger{store: cursors, key: "k"}
		l.setStart(clientstore.Saved{Cursor: "c0"}, false)
		var all []*event
		resume := func() (from int, ids []string) {
			saved, ok, err := cursors.Load(context.Background(), "k")
			if err != nil || !ok {
				t.Fatalf("nothing is saved: %v", err)
			}
			if saved.Cursor == "c0" {
				return 0, saved.EventIDs
			}
			i := slices.IndexFunc(all, func(e *event) bool { return e.cursor == saved.Cursor })
			if i < 0 {
				t.Fatalf("saved %q, which nothing had", saved.Cursor)
			}
			return i + 1, saved.EventIDs
		}
		hand := func() {
			n := len(all)
			e := &event{id: fmt.Sprint("e", n)}
			if rapid.Bool().Draw(t, "cursor") {
				e.cursor = fmt.Sprint("c", n+1)
			}
			it := item{occurrence: &wire.Occurrence{EventID: e.id}, cursor: &e.cursor}
			if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
				e.id, it.occurrence, it.gap = "", nil, &GapError{}
			}
			e.place = l.handOut(it)
			all = append(all, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"hand out": func(*rapid.T) { hand() },
			"advance": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing before it")
				}
				last := all[len(all)-1]
				last.cursor = fmt.Sprint("a", rapid.IntRange(0, 1<<30).Draw(t, "to"), "-", len(all))
				l.handOut(item{cursor: &last.cursor})
			},
			"settle": func(t *rapid.T) {
				open := slices.DeleteFunc(slices.Clone(all), func(e *event) bool { return e.settled })
				if len(open) == 0 {
					t.Skip("all is settled")
				}
				e := rapid.SampledFrom(open).Draw(t, "which")
				e.settled = true
				l.settle(e.place)
			},
			"save": func(t *rapid.T) {
				if err := l.save(context.Background()); err != nil {
					t.Fatal(err)
				}
				from, ids := resume()
				for i, e := range all {
					known := slices.Contains(ids, e.id)
					switch {
					case i < from && !e.settled:
						t.Fatalf("%s is before the watermark and not settled", e.id)
					case i >= from && e.id != "" && e.settled != known:
						t.Fatalf("%s is beyond the watermark, settled %v and saved %v", e.id, e.settled, known)
					}
				}
				next := from
				for next < len(all) && all[next].settled {
					if next++; all[next-1].cursor != "" {
						t.Fatalf("the watermark stays before %s, which it could pass", all[next-1].id)
					}
				}
			},
			"": func(t *rapid.T) {
				open := 0
				if i := slices.IndexFunc(all, func(e *event) bool { return !e.settled }); i >= 0 {
					open = len(all) - i
				}
				if n := l.openItems(); n != open {
					t.Fatalf("%d ahead, want %d", n, open)
				}
			},
		})
	})
}
