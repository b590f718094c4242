package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var changesTests = []test{
	{"REP-13: Changes returns the names since a mark, each once", testChanges},
	{"REP-13: Changes misses no name of concurrent commits", testChangesConcurrent},
	{"Changes waits for a name, for the time given, and for its context", testChangesWait},
	{"REP-11: AsOf is the time at which Changes began to read", testChangesAsOf},
	{"Marks are valid for ChangesAge, and others are refused", testMarks},
}

// changes calls Changes without a wait.
func changes(t *testing.T, e engine.Engine, since engine.Mark) engine.Changed {
	t.Helper()
	c, err := e.Changes(t.Context(), since, 0)
	if err != nil {
		t.Fatalf("Changes(%q): %v", since, err)
	}
	if c.Next == "" || c.AsOf.IsZero() {
		t.Fatalf("Changes(%q) = %+v", since, c)
	}
	return c
}

// told expects names, in any order, each once.
func told(t *testing.T, c engine.Changed, want ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(c.Names)); !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func testChanges(t *testing.T, w *world) {
	a, b := w.pair()
	put(t, a, "before", "v", 0, "before")
	first := changes(t, b, "")
	told(t, first)
	on := put(t, a, "k", "1", 0, "one", "two")
	on = put(t, b, "k", "2", on, "two")
	on = put(t, a, "k", "3", on) // tells nothing
	conflict(t, a, &store.Commit{Writes: []store.Write{{Key: "k", Value: text("x")}}, Tell: []string{"refused"}}, "k")
	for _, e := range []engine.Engine{a, b} {
		told(t, changes(t, e, first.Next), "one", "two")
	}
	second := changes(t, b, first.Next)
	told(t, changes(t, b, second.Next))
	put(t, b, "k", "4", on, "two", "three")
	told(t, changes(t, b, second.Next), "three", "two")
	told(t, changes(t, a, first.Next), "one", "three", "two") // an old mark still reports everything
	told(t, changes(t, a, ""))
	// A guard alone can tell, and a name need not be the key of a record.
	mark := changes(t, a, "").Next
	apply(t, a, &store.Commit{Guards: []store.Guard{{Key: "before", Revision: get(t, a, "before").Revision}}, Tell: []string{"any name: ü"}})
	told(t, changes(t, b, mark), "any name: ü")
}

// testChangesConcurrent has two readers. One follows the marks; the other one often uses a mark again, as after a lost
// answer.
func testChangesConcurrent(t *testing.T, w *world) {
	const writers, each = 8, 30
	readers := []engine.Engine{w.process(), w.process()}
	first := changes(t, readers[0], "").Next
	var writing sync.WaitGroup
	for i := range writers {
		e := w.process()
		writing.Go(func() {
			for n := range each {
				k := fmt.Sprintf("t/%d/%d", i, n)
				if _, applied := try(t, e, &store.Commit{Writes: []store.Write{{Key: k, Value: text("v")}}, Tell: []string{k}}); !applied {
					t.Errorf("%s: a conflict with nobody", k)
				}
				// The next result has the commit.
				if n%10 == 0 {
					c, err := e.Changes(context.Background(), first, 0)
					if err != nil || !slices.Contains(c.Names, k) {
						t.Errorf("%s is not in the changes, %v", k, err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		writing.Wait()
		close(done)
	}()
	var reading sync.WaitGroup
	for i, e := range readers {
		reading.Go(func() {
			heard := map[string]bool{}
			mark := first
			for last := false; ; {
				select {
				case <-done:
					last = true
				default:
				}
				c, err := e.Changes(context.Background(), mark, 10*time.Millisecond)
				if err != nil {
					t.Errorf("Changes: %v", err)
					return
				}
				for _, n := range c.Names {
					heard[n] = true
				}
				if last {
					break
				}
				if i == 0 || len(c.Names)%2 == 0 {
					mark = c.Next
				}
			}
			if len(heard) != writers*each {
				t.Errorf("reader %d heard of %d of %d", i, len(heard), writers*each)
			}
		})
	}
	reading.Wait()
}

func testChangesWait(t *testing.T, w *world) {
	a, b := w.pair()
	mark := changes(t, a, "").Next
	began := time.Now()
	c, err := a.Changes(t.Context(), mark, 30*time.Millisecond)
	if took := time.Since(began); err != nil || len(c.Names) != 0 || c.Next == "" || took < 30*time.Millisecond {
		t.Errorf("nothing told: %+v, %v after %v", c, err, took)
	}
	if c.AsOf.Before(began.Add(30 * time.Millisecond)) {
		t.Errorf("the last look was %v before the end of the wait", began.Add(30*time.Millisecond).Sub(c.AsOf))
	}
	mark = c.Next
	var wg sync.WaitGroup
	time.AfterFunc(20*time.Millisecond, func() {
		if _, err := b.Commit(context.Background(), &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "w", Value: text("v")}}, Tell: []string{"w"}}); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		wg.Go(func() {
			began := time.Now()
			c, err := a.Changes(context.Background(), mark, time.Minute)
			if err != nil || !slices.Equal(c.Names, []string{"w"}) || time.Since(began) > 30*time.Second {
				t.Errorf("%+v, %v after %v", c, err, time.Since(began))
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = a.Changes(ctx, changes(t, a, "").Next, time.Hour)
	is(t, "a context that ends", err, context.DeadlineExceeded)
}

func testChangesAsOf(t *testing.T, w *world) {
	a, b := w.pair()
	mark := changes(t, b, "").Next
	var on uint64
	for i := range 20 {
		name := fmt.Sprint("n", i)
		before := time.Now()
		on = put(t, a, "k", name, on, name)
		answered := time.Now()
		c := changes(t, b, mark)
		if c.AsOf.Before(answered) || c.AsOf.After(time.Now()) {
			t.Errorf("AsOf is %v after the call began", c.AsOf.Sub(answered))
		}
		if c.AsOf.Sub(before) < 0 {
			t.Error("AsOf has no monotonic reading")
		}
		told(t, c, name)
		mark = c.Next
	}
}

func testMarks(t *testing.T, w *world) {
	a, b := w.pair()
	oldest := changes(t, a, "").Next
	compacted := func(what string, m engine.Mark) {
		t.Helper()
		if c, err := a.Changes(t.Context(), m, 0); !errors.Is(err, engine.ErrCompacted) {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
	for _, m := range []engine.Mark{"x", "0", "-1", ".", "1.1", oldest + "x", "x" + oldest} {
		compacted(fmt.Sprintf("a forged mark %q", m), m)
	}
	put(t, a, "a", "v", 0, "a")
	w.age(a, engine.ChangesAge-5*time.Minute)
	put(t, b, "b", "v", 0, "b")
	told(t, changes(t, b, oldest), "a", "b")
	middle := changes(t, b, "").Next
	w.age(a, 50*time.Minute)
	put(t, b, "c", "v", 0, "c")
	told(t, changes(t, a, middle), "c")
	w.age(a, 2*engine.ChangesAge)
	put(t, b, "d", "v", 0, "d")
	if c, err := a.Changes(t.Context(), oldest, 0); !errors.Is(err, engine.ErrCompacted) && (err != nil || len(c.Names) != 4) {
		t.Errorf("an old mark: %+v, %v", c, err)
	}
	// An engine keeps 10,000 names.
	mark := changes(t, a, "").Next
	on := get(t, a, "a").Revision
	for i := range 10 {
		var names []string
		for n := range store.MaxCommit {
			names = append(names, fmt.Sprintf("many/%d/%d", i, n))
		}
		on = put(t, b, "a", "v", on, names...)
	}
	if c := changes(t, a, mark); len(c.Names) != 10*store.MaxCommit {
		t.Errorf("%d of %d names", len(c.Names), 10*store.MaxCommit)
	}
}
