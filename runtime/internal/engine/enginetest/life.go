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

var lifeTests = []test{
	{"REP-19: a new life deletes live records, and refuses commits of before", testNewLife},
	{"REP-19: a new life ends marks, and a wait for changes", testNewLifeChanges},
	{"REP-8: the clock never goes back, and is that of all processes", testClock},
	{"Ping answers", testPing},
	{"A closed engine returns ErrClosed", testClosed},
	{"A durable store has its records after a restart", testRestart},
}

func testNewLife(t *testing.T, w *world) {
	a, b := w.pair()
	var c store.Commit
	live := []string{"live/lease/1", "live/shard/e/0", "live/x"}
	others := []string{"lively", "live-/x", "live", "live0/x", "sub/1"}
	for _, k := range append(slices.Clone(live), others...) {
		c.Writes = append(c.Writes, store.Write{Key: k, Value: text("v")})
	}
	on := apply(t, a, &c)
	life := enter(t, a)
	if again := enter(t, b); again != life {
		t.Errorf("processes are in the lives %d and %d", life, again)
	}
	if err := b.NewLife(t.Context()); err != nil {
		t.Fatal(err)
	}
	guarded := &store.Commit{Call: newCall(), Guards: []store.Guard{{Key: live[1], Revision: on[1]}}, Writes: []store.Write{{Key: "late", Value: text("v")}}}
	if _, err := a.Commit(t.Context(), guarded); !errors.Is(err, engine.ErrNewLife) && !errors.Is(err, store.ErrConflict) {
		t.Errorf("a commit with a hold of before: %v", err)
	}
	for _, e := range []engine.Engine{a, b} {
		_, err := e.Changes(t.Context(), "", 0)
		is(t, "Changes before Enter", err, engine.ErrNewLife)
		_, err = e.Commit(t.Context(), &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "late", Value: text("v")}}})
		is(t, "Commit before Enter", err, engine.ErrNewLife)
	}
	next := enter(t, a)
	if enter(t, b) != next || next == life {
		t.Errorf("life %d was followed by %d", life, next)
	}
	conflict(t, a, guarded, live[1])
	for i, r := range getAll(t, a, store.Latest, live...) {
		if r.Value != nil || r.Revision == on[i] {
			t.Errorf("%s is still there: %+v", r.Key, r)
		}
	}
	for i, r := range getAll(t, b, store.Latest, others...) {
		if textOf(r.Value) != "v" || r.Revision != on[len(live)+i] {
			t.Errorf("%s became %+v", r.Key, r)
		}
	}
	if got := keysOf(everything(t, b)); len(got) != len(others) {
		t.Errorf("there are %v", got)
	}
	lease := put(t, b, live[0], "next", get(t, b, live[0]).Revision)
	apply(t, a, &store.Commit{Guards: []store.Guard{{Key: live[0], Revision: lease}}})
	if err := a.NewLife(t.Context()); err != nil {
		t.Fatal(err)
	}
	if third := enter(t, a); third == next || third == life {
		t.Errorf("life %d after %d and %d", third, life, next)
	}
}

func testNewLifeChanges(t *testing.T, w *world) {
	a, b := w.pair()
	mark := changes(t, a, "").Next
	put(t, a, "k", "v", 0, "k")
	later := changes(t, a, "").Next
	var wg sync.WaitGroup
	wg.Go(func() {
		began := time.Now()
		_, err := a.Changes(t.Context(), later, time.Hour)
		if !errors.Is(err, engine.ErrNewLife) && !errors.Is(err, engine.ErrCompacted) || time.Since(began) > time.Minute {
			t.Errorf("a wait during a new life: %v after %v", err, time.Since(began))
		}
	})
	time.AfterFunc(20*time.Millisecond, func() {
		if err := b.NewLife(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	_, err := a.Changes(t.Context(), mark, 0)
	is(t, "before Enter", err, engine.ErrNewLife)
	enter(t, a)
	enter(t, b)
	for _, m := range []engine.Mark{mark, later} {
		_, err := a.Changes(t.Context(), m, 0)
		is(t, "a mark of the life before", err, engine.ErrCompacted)
	}
	mark = changes(t, a, "").Next
	put(t, b, "n", "v", 0, "n")
	told(t, changes(t, a, mark), "n")
}

func testClock(t *testing.T, w *world) {
	a, b := w.pair()
	var wg sync.WaitGroup
	for _, e := range []engine.Engine{a, b} {
		wg.Go(func() {
			last := clock(t, e)
			for range 200 {
				now := clock(t, e)
				if now.Round(0).Before(last.Round(0)) {
					t.Errorf("the clock went back from %v to %v", last, now)
				}
				last = now
			}
		})
	}
	wg.Wait()
	x, y := clock(t, a), clock(t, b)
	if d := y.Sub(x); d < -time.Second || d > 10*time.Second {
		t.Errorf("the clocks of two processes are at %v and %v", x, y)
	}
	before := clock(t, a)
	eventually(t, "the clock goes on", func() bool { return clock(t, a).After(before) })
}

func testPing(t *testing.T, w *world) {
	e := w.process()
	if err := e.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if all := everything(t, e); len(all) != 0 {
		t.Errorf("Ping wrote %v", keysOf(all))
	}
}

func testClosed(t *testing.T, w *world) {
	a, b := w.pair()
	put(t, a, "k", "v", 0)
	mark := changes(t, a, "").Next
	var wg sync.WaitGroup
	wg.Go(func() {
		began := time.Now()
		_, err := a.Changes(t.Context(), mark, time.Hour)
		is(t, "a wait for changes", err, store.ErrClosed)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the wait ended after %v", took)
		}
	})
	time.AfterFunc(20*time.Millisecond, func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	ctx := t.Context()
	_, err := a.Commit(ctx, &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "late", Value: text("v")}}})
	is(t, "Commit", err, store.ErrClosed)
	allReturn(ctx, t, a, mark, store.ErrClosed)
	if a != b {
		if got := keysOf(everything(t, b)); !slices.Equal(got, []string{"k"}) {
			t.Errorf("another process has %v", got)
		}
		put(t, b, "l", "v", 0)
	}
}

// allReturn checks that the methods of an engine other than Commit return an error that matches want.
func allReturn(ctx context.Context, t *testing.T, e engine.Engine, mark engine.Mark, want error) {
	t.Helper()
	_, err := e.Get(ctx, store.Latest, "k")
	is(t, "Get", err, want)
	_, err = e.Scan(ctx, "", "", 1)
	is(t, "Scan", err, want)
	_, err = e.Changes(ctx, mark, 0)
	is(t, "Changes", err, want)
	_, err = e.Clock(ctx)
	is(t, "Clock", err, want)
	_, err = e.Enter(ctx)
	is(t, "Enter", err, want)
	is(t, "NewLife", e.NewLife(ctx), want)
	is(t, "Ping", e.Ping(ctx), want)
}

func testRestart(t *testing.T, w *world) {
	if !w.c.Durable {
		t.Skip("the store does not survive its engine")
	}
	e := w.process()
	seen := map[uint64]bool{}
	note := func(revision uint64) uint64 {
		t.Helper()
		if seen[revision] {
			t.Fatalf("revision %d again", revision)
		}
		seen[revision] = true
		return revision
	}
	create := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "a", Value: text("1")}, {Key: "gone", Value: text("1")}, {Key: "live/x", Value: text("1")}}}
	on := apply(t, e, create)
	a, gone := on[0], note(remove(t, e, "gone", on[1]))
	mark := changes(t, e, "").Next
	for i := range 3 {
		e = w.restart(e)
		if r := get(t, e, "a"); textOf(r.Value) != fmt.Sprint(i+1) || r.Revision != a || i == 0 && r.Call != create.Call {
			t.Errorf("restart %d: %+v", i, r)
		}
		if r := get(t, e, "gone"); r.Value != nil || r.Revision != gone {
			t.Errorf("restart %d: the deletion became %+v", i, r)
		}
		if live := scan(t, e, engine.LivePrefix, 10); e.Exclusive() != (len(live) == 0) {
			t.Errorf("restart %d: live records %v", i, keysOf(live))
		}
		conflict(t, e, &store.Commit{Call: create.Call, Writes: create.Writes[:2]}, "a", "gone")
		if _, err := e.Changes(t.Context(), mark, 0); err != nil {
			is(t, "a mark of before", err, engine.ErrCompacted)
		}
		a = note(put(t, e, "a", fmt.Sprint(i+2), a))
		gone = note(remove(t, e, "gone", note(put(t, e, "gone", "1", gone))))
	}
}
