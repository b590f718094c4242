package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var guardTests = []test{
	{"REP-7: a guarded write precedes a claim or is refused", testGuards},
	{"Two commits that guard what the other one writes: one is refused", testSkew},
	{"No write is lost when several processes replace a record", testContention},
	{"Commits of several records in different orders do not block each other", testOrders},
}

// try makes a commit, and reports a conflict as false.
func try(t *testing.T, e engine.Engine, c *store.Commit) (revisions []uint64, applied bool) {
	c.Call = newCall()
	revisions, err := e.Commit(context.Background(), c)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		t.Errorf("Commit: %v", err)
	}
	return revisions, err == nil
}

func testGuards(t *testing.T, w *world) {
	a, b := w.pair()
	hold := put(t, a, "hold", "0", 0)
	for round := range 20 {
		var wg sync.WaitGroup
		var last, next, seen uint64 // revisions of work after the guarded writes, of hold and of work after the claim
		var claimed atomic.Bool
		started := make(chan struct{})
		wg.Go(func() {
			last = get(t, a, "work").Revision
			for n := 0; ; n++ {
				late := claimed.Load()
				revisions, applied := try(t, a, &store.Commit{Guards: []store.Guard{{Key: "hold", Revision: hold}}, Writes: []store.Write{{Key: "work", On: last, Value: text("v")}}})
				if !applied {
					return
				}
				if late {
					t.Error("a guarded write follows a claim")
					return
				}
				if last = revisions[0]; n == round {
					close(started)
				}
			}
		})
		wg.Go(func() {
			<-started
			revisions, applied := try(t, b, &store.Commit{Writes: []store.Write{{Key: "hold", On: hold, Value: text(fmt.Sprint(round))}}})
			if !applied {
				t.Error("a claim is refused because of guards")
				return
			}
			claimed.Store(true)
			next, seen = revisions[0], get(t, b, "work").Revision
		})
		wg.Wait()
		if now := get(t, a, "work").Revision; now != seen || now != last {
			t.Fatalf("the claim was followed by work %d, then there were %d and %d", seen, now, last)
		}
		hold = next
	}
}

func testSkew(t *testing.T, w *world) {
	a, b := w.pair()
	for round := range 30 {
		x, y := fmt.Sprint("x", round), fmt.Sprint("y", round)
		onX, onY := put(t, a, x, "free", 0), put(t, a, y, "free", 0)
		var first, second bool
		var wg sync.WaitGroup
		wg.Go(func() {
			_, first = try(t, a, &store.Commit{Guards: []store.Guard{{Key: x, Revision: onX}}, Writes: []store.Write{{Key: y, On: onY, Value: text("taken")}}})
		})
		wg.Go(func() {
			_, second = try(t, b, &store.Commit{Guards: []store.Guard{{Key: y, Revision: onY}}, Writes: []store.Write{{Key: x, On: onX, Value: text("taken")}}})
		})
		wg.Wait()
		if first == second {
			t.Fatalf("round %d: applied: %v and %v", round, first, second)
		}
	}
}

func testContention(t *testing.T, w *world) {
	const writers, each = 8, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	names := map[uint64]bool{}
	for range writers {
		e := w.process()
		wg.Go(func() {
			for done := 0; done < each; {
				r := get(t, e, "counter")
				old := textOf(r.Value)
				if r.Value == nil {
					old = ""
				}
				revisions, applied := try(t, e, &store.Commit{Writes: []store.Write{{Key: "counter", On: r.Revision, Value: text(old + ".")}}})
				if !applied {
					continue
				}
				done++
				mu.Lock()
				names[revisions[0]] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n := len(textOf(get(t, w.process(), "counter").Value)); n != writers*each || len(names) != writers*each {
		t.Errorf("%d of %d writes, with %d revisions", n, writers*each, len(names))
	}
}

func testOrders(t *testing.T, w *world) {
	const writers, each = 4, 15
	keys := []string{"k/0", "k/1", "k/2", "k/3", "k/4", "k/5"}
	a, b := w.pair()
	var wg sync.WaitGroup
	for i := range writers {
		e := []engine.Engine{a, b}[i%2]
		wg.Go(func() {
			for done := 0; done < each; {
				found := getAll(t, e, store.Stale, keys...)
				c := &store.Commit{}
				for _, n := range rand.Perm(len(found)) {
					c.Writes = append(c.Writes, store.Write{Key: found[n].Key, On: found[n].Revision, Value: text(fmt.Sprint(i, done))})
				}
				if _, applied := try(t, e, c); applied {
					done++
				}
			}
		})
	}
	wg.Wait()
	found := getAll(t, a, store.Latest, keys...)
	for _, r := range found {
		if r.Call != found[0].Call || textOf(r.Value) != textOf(found[0].Value) {
			t.Errorf("%s was written by another commit than %s", r.Key, found[0].Key)
		}
	}
}
