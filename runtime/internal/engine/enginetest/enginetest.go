// Package enginetest is the suite that every engine must pass: [Run], or [Records] for an engine without logs. Package
// ledgertest has the tests of the ledger, which also run on every engine.
//
// The package makes no promise of compatibility.
package enginetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Config describes the engine under test.
type Config struct {
	// Fresh creates an empty store and returns a function that opens it, each time as another process. The suite closes
	// each engine; it does not open the store of an exclusive one before that.
	Fresh func(t *testing.T) (open func() engine.Engine)
	// Age makes everything in the store of e older. If it is nil, the suite runs in testing/synctest bubbles instead,
	// where time passes.
	Age func(t *testing.T, e engine.Engine, by time.Duration)
	// Durable reports whether records and entries survive the engines that have the store open.
	Durable bool
}

// Run tests an engine.
func Run(t *testing.T, c Config) {
	Records(t, c)
	t.Run("Logs", func(t *testing.T) { testLogs(t, c) })
}

// Records tests an engine without logs.
func Records(t *testing.T, c Config) {
	for _, tests := range [][]test{commitTests, lateTests, guardTests, readTests, changesTests, lifeTests} {
		c.run(t, tests)
	}
}

// A test is a test of a fresh store.
type test struct {
	name string
	run  func(t *testing.T, w *world)
}

func (c *Config) run(t *testing.T, tests []test) {
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.bubble(t, func(t *testing.T) { tc.run(t, &world{c: c, t: t, open: c.Fresh(t)}) })
		})
	}
}

// bubble runs f in a bubble, unless time passes by Age.
func (c *Config) bubble(t *testing.T, f func(t *testing.T)) {
	if c.Age != nil {
		f(t)
		return
	}
	synctest.Test(t, f)
}

// A world is the store of a test and its processes.
type world struct {
	c    *Config
	t    *testing.T
	open func() engine.Engine
	only engine.Engine // the process that has the store open, if the engine is exclusive
}

// process returns a new process that has entered, or the only one of an exclusive engine.
func (w *world) process() engine.Engine {
	w.t.Helper()
	if w.only != nil {
		return w.only
	}
	e := w.open()
	w.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			w.t.Errorf("Close: %v", err)
		}
	})
	if e.Exclusive() {
		w.only = e
	}
	enter(w.t, e)
	return e
}

// pair returns two processes, which are the same one if the engine is exclusive.
func (w *world) pair() (a, b engine.Engine) {
	w.t.Helper()
	return w.process(), w.process()
}

// restart closes a process and returns the next one.
func (w *world) restart(e engine.Engine) engine.Engine {
	w.t.Helper()
	if err := e.Close(); err != nil {
		w.t.Fatalf("Close: %v", err)
	}
	w.only = nil
	return w.process()
}

// age lets time pass for the store.
func (w *world) age(e engine.Engine, by time.Duration) {
	w.t.Helper()
	if w.c.Age != nil {
		w.c.Age(w.t, e, by)
		return
	}
	time.Sleep(by)
}

// eventually waits until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func enter(t *testing.T, e engine.Engine) uint64 {
	t.Helper()
	life, err := e.Enter(t.Context())
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return life
}

func clock(t *testing.T, e engine.Engine) time.Time {
	t.Helper()
	now, err := e.Clock(t.Context())
	if err != nil {
		t.Fatalf("Clock: %v", err)
	}
	return now
}

func text(s string) store.Value { return store.Bytes(s) }

func textOf(v store.Value) string {
	if v == nil {
		return "<none>"
	}
	return string(v.Bytes())
}

func newCall() uint64 { return rand.Uint64()>>1 + 1 }

// put replaces a record and returns its revision.
func put(t *testing.T, e engine.Engine, key, value string, on uint64, tell ...string) uint64 {
	t.Helper()
	return write(t, e, store.Write{Key: key, On: on, Value: text(value)}, tell...)
}

// remove deletes a record and returns the revision of the deletion.
func remove(t *testing.T, e engine.Engine, key string, on uint64) uint64 {
	t.Helper()
	return write(t, e, store.Write{Key: key, On: on})
}

func write(t *testing.T, e engine.Engine, w store.Write, tell ...string) uint64 {
	t.Helper()
	return apply(t, e, &store.Commit{Writes: []store.Write{w}, Tell: tell})[0]
}

// apply makes a commit, under a new Call if it has none.
func apply(t *testing.T, e engine.Engine, c *store.Commit) []uint64 {
	t.Helper()
	if c.Call == 0 {
		c.Call = newCall()
	}
	revisions, err := e.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if len(revisions) != len(c.Writes) {
		t.Fatalf("%d revisions of %d writes", len(revisions), len(c.Writes))
	}
	return revisions
}

func get(t *testing.T, e engine.Engine, key string) store.Record {
	t.Helper()
	found := getAll(t, e, store.Latest, key)
	return found[0]
}

func getAll(t *testing.T, e engine.Engine, c store.Consistency, keys ...string) []store.Record {
	t.Helper()
	found, err := e.Get(t.Context(), c, keys...)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if len(found) != len(keys) {
		t.Fatalf("Get of %d keys: %d records", len(keys), len(found))
	}
	for i, r := range found {
		if r.Key != keys[i] {
			t.Fatalf("record %d of Get has the key %q, want %q", i, r.Key, keys[i])
		}
	}
	return found
}

// scan returns all records with a prefix, read in pages.
func scan(t *testing.T, e engine.Engine, prefix string, limit int) (all []store.Record) {
	t.Helper()
	for after := ""; ; {
		page, err := e.Scan(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatalf("Scan: %v", err)
		}
		if len(page) > limit {
			t.Fatalf("a page of %d records, limit %d", len(page), limit)
		}
		if len(page) == 0 {
			return all
		}
		if page[0].Key <= after {
			t.Fatalf("Scan after %q returns %q", after, page[0].Key)
		}
		all, after = append(all, page...), page[len(page)-1].Key
	}
}

func keysOf(records []store.Record) (keys []string) {
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

// conflict expects a conflict of exactly those keys, and that nothing was written.
func conflict(t *testing.T, e engine.Engine, c *store.Commit, keys ...string) {
	t.Helper()
	if c.Call == 0 {
		c.Call = newCall()
	}
	before := everything(t, e)
	_, err := e.Commit(t.Context(), c)
	var ce *store.ConflictError
	if !errors.As(err, &ce) || !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want a conflict of %v", err, keys)
		return
	}
	if got := slices.Sorted(slices.Values(ce.Keys)); !slices.Equal(got, slices.Sorted(slices.Values(keys))) {
		t.Errorf("a conflict of %v, want %v", ce.Keys, keys)
	}
	after := everything(t, e)
	if !slices.EqualFunc(before, after, func(x, y store.Record) bool {
		return x.Key == y.Key && x.Revision == y.Revision && x.Call == y.Call && textOf(x.Value) == textOf(y.Value)
	}) {
		t.Errorf("a refused commit changed %v to %v", keysOf(before), keysOf(after))
	}
}

func everything(t *testing.T, e engine.Engine) []store.Record {
	t.Helper()
	return scan(t, e, "", 500)
}

// is expects an error.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}
