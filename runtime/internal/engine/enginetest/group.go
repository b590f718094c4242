package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// groupTests are about groups of entries (REP-20).
var groupTests = []test{
	{"REP-20: a group is appended in order, and entries that are there are skipped", testGroup},
	{"REP-20: concurrent groups follow one another", testGroups},
	{"REP-20: a group is visible as a whole", testGroupVisible},
	{"A group that is invalid or cancelled appends nothing", testGroupInvalid},
}

// once returns a group of entries that are appended with Once.
func once(ids ...string) (g []engine.Append) {
	for _, id := range ids {
		g = append(g, engine.Append{Entry: entry(id), Once: true})
	}
	return g
}

func testGroup(t *testing.T, w *world) {
	a, b := w.pair()
	var seen witness
	la := openLog(t, a, "log", store.LogOptions{})
	l := openLog(t, b, "log", seen.options()) // last, because its options apply if there is one process
	group(t, l, once("stands")...)
	g := once("1", "2", "stands", "stands", "3")
	g[2].Entry.Data = []byte(`{}`)
	g[3].Above = 1
	g[3].Entry.Targets = []string{"sub_1"} // other targets
	g = append(g, engine.Append{Entry: entry("generated")})
	done := group(t, la, g...)
	is(t, "an id with other data", done[2].Err, events.ErrIDReused)
	done[2].Err = nil
	want := []engine.Appended{{Position: 2, Fresh: true}, {Position: 3, Fresh: true}, {Position: 1}, {Position: 4, Fresh: true},
		{Position: 5, Fresh: true}, {Position: 6, Fresh: true}}
	if !slices.Equal(done, want) {
		t.Errorf("got %+v, want %+v", done, want)
	}
	if got := contents(t, l); !slices.Equal(got, []string{"stands", "1", "2", "stands", "3", "generated"}) {
		t.Errorf("the log has %v", got)
	}
	// As after a lost answer.
	done = group(t, la, once("1", "2", "4", "generated")...)
	if want := []engine.Appended{{Position: 2}, {Position: 3}, {Position: 7, Fresh: true}, {Position: 6}}; !slices.Equal(done, want) {
		t.Errorf("got %+v, want %+v", done, want)
	}
	eventually(t, "the other process gets it", func() bool { return len(seen.all()) == 7 })
	if got := seen.ids(); !slices.Equal(got, []string{"stands", "1", "2", "stands", "3", "generated", "4"}) {
		t.Errorf("Appended got %v", got)
	}
	g = once("1", "5")
	g[0].Above = 2
	if done := group(t, l, g...); !slices.Equal(done, []engine.Appended{{Position: 8, Fresh: true}, {Position: 9, Fresh: true}}) {
		t.Errorf("above the earlier one: %+v", done)
	}
	if len(seen.all()) != 9 {
		t.Error("Append returned before Appended")
	}
	group(t, l)
	g = g[:0] // the largest group, with payloads that make it large
	for i := range engine.MaxGroup {
		g = append(g, engine.Append{Entry: with(entry(fmt.Sprint("many", i)), `{"x":"`+strings.Repeat("x", 1000)+`"}`), Once: true})
	}
	for i, d := range group(t, la, g...) {
		if d.Position != store.Position(10+i) || !d.Fresh || d.Err != nil {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	if got := contents(t, l); len(got) != 9+engine.MaxGroup || got[9] != "many0" || got[8+engine.MaxGroup] != fmt.Sprint("many", engine.MaxGroup-1) {
		t.Errorf("%d entries", len(got))
	}
}

func testGroups(t *testing.T, w *world) {
	a, b := w.pair()
	logs := []engine.Log{openLog(t, a, "log", store.LogOptions{}), openLog(t, b, "log", store.LogOptions{})}
	var wg sync.WaitGroup
	const rounds, size = 8, 5
	var mu sync.Mutex
	fresh := map[string]int{}
	for i, l := range logs {
		for round := range rounds {
			wg.Go(func() {
				var ids []string
				for n := range size {
					ids = append(ids, fmt.Sprint(round, "-", n))
				}
				done, err := l.Append(context.Background(), once(ids...)...)
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for n, d := range done {
					if d.Fresh {
						fresh[ids[n]]++
					}
					if n > 0 && d.Position != done[n-1].Position+1 {
						t.Errorf("round %d: %+v", round, done)
					}
				}
			})
			wg.Go(func() {
				if _, err := l.Append(context.Background(), engine.Append{Entry: entry(fmt.Sprint("single", i, round))}); err != nil {
					t.Errorf("Append: %v", err)
				}
			})
		}
	}
	wg.Wait()
	if got := contents(t, logs[0]); len(got) != rounds*size+2*rounds || len(fresh) != rounds*size {
		t.Errorf("%d entries, %d fresh: %v", len(got), len(fresh), got)
	}
	for id, n := range fresh {
		if n != 1 {
			t.Errorf("%s was appended %d times", id, n)
		}
	}
}

func testGroupVisible(t *testing.T, w *world) {
	const groups, size = 30, 7
	a, b := w.pair()
	la, lb := openLog(t, a, "log", store.LogOptions{}), openLog(t, b, "log", store.LogOptions{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range groups {
			var ids []string
			for n := range size {
				ids = append(ids, fmt.Sprint(i, "-", n))
			}
			if _, err := la.Append(context.Background(), once(ids...)...); err != nil {
				t.Errorf("Append: %v", err)
			}
		}
	})
	for head := store.Position(0); head < groups*size; {
		var err error
		if head, err = lb.CatchUp(t.Context(), head+1); err != nil || head%size != 0 {
			t.Errorf("the head is %d in the middle of a group, %v", head, err)
			break
		}
	}
	wg.Wait()
}

func testGroupInvalid(t *testing.T, w *world) {
	e := w.process()
	var seen witness
	l := openLog(t, e, "log", seen.options())
	appendAll(t, l, "first")
	large := once("0")
	for i := range engine.MaxGroup {
		large = append(large, engine.Append{Entry: entry(fmt.Sprint("large", i))})
	}
	twice := once("a", "b", "a")
	twice[2].Once = false
	targets := once("a", "a")
	targets[0].Entry.Targets, targets[1].Entry.Targets = []string{"s", "t"}, []string{"t", "s", "t"}
	for name, g := range map[string][]engine.Append{"more than MaxGroup": large, "an id twice": twice, "an id for the same targets twice": targets} {
		if done, err := l.Append(t.Context(), g...); err == nil || errors.Is(err, store.ErrUncertain) {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Append(ctx, once("a", "b")...)
	is(t, "cancelled", err, context.Canceled)
	if got := contents(t, l); !slices.Equal(got, []string{"first"}) || len(seen.all()) != 1 {
		t.Errorf("the log has %v, Appended got %v", got, seen.ids())
	}
}
