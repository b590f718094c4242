package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// enter returns the store's engine in its present life.
func enter(t *testing.T, s *sqlite.Store) engine.Engine {
	t.Helper()
	if _, err := s.Engine().Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.Engine()
}

func write(key, value string, on uint64) store.Write {
	return store.Write{Key: key, On: on, Value: store.Bytes(value)}
}

func commit(ctx context.Context, e engine.Engine, writes ...store.Write) ([]uint64, error) {
	c := &store.Commit{Call: rand.Uint64() | 1, Writes: writes}
	for _, w := range writes {
		c.Tell = append(c.Tell, w.Key)
	}
	return e.Commit(ctx, c)
}

func mustCommit(t *testing.T, e engine.Engine, writes ...store.Write) []uint64 {
	t.Helper()
	revisions, err := commit(t.Context(), e, writes...)
	if err != nil {
		t.Fatal(err)
	}
	return revisions
}

func get(t *testing.T, e engine.Engine, key string) store.Record {
	t.Helper()
	found, err := e.Get(t.Context(), store.Latest, key)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// scanAll returns all records that begin with prefix, and the size of the largest page.
func scanAll(t *testing.T, e engine.Engine, prefix string, limit int) (all []store.Record, largest int) {
	t.Helper()
	for after := ""; ; {
		page, err := e.Scan(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all, largest
		}
		all, largest, after = append(all, page...), max(largest, len(page)), page[len(page)-1].Key
	}
}

func keys(records []store.Record) (all []string) {
	for _, r := range records {
		all = append(all, r.Key)
	}
	return all
}

// Records survive a restart as they were written, tombstones too; those under live/ do not.
func TestRecordsSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	e := enter(t, s)
	life, err := e.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bytes := "\x00\xff text"
	on := mustCommit(t, e, write("a/full", bytes, 0), write("a/empty", "", 0), store.Write{Key: "a/nil", Value: store.Bytes(nil)}, write("a/gone", "x", 0), write("live/lease", "x", 0),
		store.Write{Key: "a/once", Value: store.Bytes("x"), Once: true})
	gone := mustCommit(t, e, store.Write{Key: "a/gone", On: on[3]}, store.Write{Key: "a/once", On: on[5]})
	want := get(t, e, "a/full")
	if want.Call == 0 || want.Revision != on[0] {
		t.Errorf("written: %+v", want)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := commit(t.Context(), e, write("late", "x", 0)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("commit after Close: %v", err)
	}
	e = open(t, path, sqlite.Options{}).Engine()
	if again, err := e.Enter(t.Context()); err != nil || again != life {
		t.Errorf("life %d, then %d, %v", life, again, err)
	}
	if got := get(t, e, "a/full"); string(got.Value.Bytes()) != bytes || got.Revision != want.Revision || got.Call != want.Call {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, key := range []string{"a/empty", "a/nil"} {
		if got := get(t, e, key); got.Value == nil || len(got.Value.Bytes()) != 0 {
			t.Errorf("an empty value: %+v", got)
		}
	}
	for key, want := range map[string]uint64{"a/gone": gone[0], "a/once": 0, "live/lease": 0, "a/never": 0} {
		if got := get(t, e, key); got.Value != nil || got.Revision != want {
			t.Errorf("%s: %+v, want revision %d", key, got, want)
		}
	}
	all, _ := scanAll(t, e, "", 2)
	if got := fmt.Sprint(keys(all)); got != "[a/empty a/full a/nil]" {
		t.Errorf("scanned %s", got)
	}
}

// TestChildCommits is the child of TestKilledAmidCommits: it commits pairs of records until it is killed, and says which
// were answered.
func TestChildCommits(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		return // only meant to run as a child
	}
	e := enter(t, open(t, path, sqlite.Options{}))
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d.%d.%d", os.Getpid(), w, i)
				revisions, err := commit(context.Background(), e, write("left/"+id, id, 0), write("right/"+id, id, 0))
				if err != nil {
					os.Exit(3)
				}
				fmt.Printf("ack %s %d\n", id, revisions[0])
			}
		}()
	}
	select {}
}

// REP-5: each commit that a killed process answered is there after the restart, and each one is there completely or not
// at all.
func TestREP5KilledAmidCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	answered := map[string]uint64{}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildCommits$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		killAfter(t, cmd, 150, func(line string) bool {
			var id string
			var revision uint64
			n, _ := fmt.Sscanf(line, "ack %s %d", &id, &revision)
			if n == 2 {
				answered[id] = revision
			}
			return n == 2
		})
	}
	if len(answered) < 450 {
		t.Errorf("%d commits were answered", len(answered))
	}
	e := enter(t, open(t, path, sqlite.Options{}))
	left, _ := scanAll(t, e, "left/", 100)
	right, _ := scanAll(t, e, "right/", 100)
	stored := map[string]uint64{}
	for _, r := range left {
		stored[strings.TrimPrefix(r.Key, "left/")] = r.Revision
	}
	for _, r := range right {
		if id := string(r.Value.Bytes()); stored[id] == 0 {
			t.Errorf("of the commit of %s only one record is there", id)
		}
	}
	if len(left) != len(right) {
		t.Errorf("%d and %d records", len(left), len(right))
	}
	for id, revision := range answered {
		if stored[id] != revision {
			t.Errorf("%s was answered with revision %d, the file has %d", id, revision, stored[id])
		}
	}
}

// REP-19: after an older copy of the file was put back, no revision of the lost time is given to anything else, so what
// somebody still holds from it is refused.
func TestREP19RestoredCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	first := mustCommit(t, enter(t, s), write("k", "first", 0))[0]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, path, sqlite.Options{})
	lost := map[uint64]bool{}
	on := first
	for i := range 5 {
		on = mustCommit(t, enter(t, s), write("k", fmt.Sprint("lost ", i), on))[0]
		lost[on] = true
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	e := enter(t, open(t, path, sqlite.Options{}))
	if _, err := commit(t.Context(), e, write("k", "late", on)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a commit on a lost revision: %v", err)
	}
	for on, i := first, 0; i < 20; i++ {
		if on = mustCommit(t, e, write("k", "new", on))[0]; lost[on] {
			t.Fatalf("revision %d was given again", on)
		}
	}
}

// REP-19: a process whose file is put back to an older state under it answers no more commits, and nothing that it holds
// in memory hides this; appends to logs, which notice by themselves, go on.
func TestREP19PutBackUnderAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	e, l := enter(t, s), openLog(t, s, store.LogOptions{})
	mustCommit(t, e, write("k", "x", 0))
	exec1(t, path, "CREATE TABLE earlier AS SELECT stamp FROM life")
	on := mustCommit(t, e, write("k", "y", get(t, e, "k").Revision))[0]
	exec1(t, path, "UPDATE life SET stamp = (SELECT stamp FROM earlier)")
	for range 2 {
		_, err := commit(t.Context(), e, write("k", "z", on))
		if !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), "older state") || !strings.Contains(err.Error(), "restart the process") {
			t.Errorf("committed: %v", err)
		}
	}
	if got := get(t, e, "k"); string(got.Value.Bytes()) != "y" {
		t.Errorf("written: %+v", got)
	}
	appendAll(t, l, "a")
}

// K2: a damaged record is named when it is read, and hides no other one; it can be replaced.
func TestDamagedRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	e := enter(t, s)
	columns := []string{"value = x'7b7d'", "value = NULL", "call = call + 1", "once = 1", "gone = 1 << 60", "sum = sum + 1"}
	for i := range columns {
		mustCommit(t, e, write(fmt.Sprint("k/", i), "{ }", 0), write(fmt.Sprint("l/", i), "{}", 0))
	}
	for i, c := range columns {
		exec1(t, path, fmt.Sprintf("UPDATE records SET %s WHERE key = 'k/%d'", c, i))
	}
	for i, c := range columns {
		key := fmt.Sprint("k/", i)
		found, err := e.Get(t.Context(), store.Latest, key, fmt.Sprint("l/", i))
		if err != nil {
			t.Fatal(err)
		}
		damaged, ok := found[0].Value.(store.Damaged)
		if !ok || !errors.Is(damaged.Err, sqlite.ErrCorrupt) || !strings.Contains(damaged.Err.Error(), key) || damaged.Bytes() != nil {
			t.Errorf("%s: %+v", c, found[0])
		}
		if found[1].Value == nil || string(found[1].Value.Bytes()) != "{}" {
			t.Errorf("next to %s: %+v", c, found[1])
		}
		mustCommit(t, e, write(key, "mended", found[0].Revision))
		if got := get(t, e, key); string(got.Value.Bytes()) != "mended" {
			t.Errorf("%s, replaced: %+v", c, got)
		}
	}
	exec1(t, path, "UPDATE records SET sum = 0 WHERE key = 'k/3'")
	all, _ := scanAll(t, e, "k/", 2)
	if len(all) != len(columns) {
		t.Errorf("scanned %v", keys(all))
	}
	if _, ok := all[3].Value.(store.Damaged); !ok {
		t.Errorf("scanned %+v", all[3])
	}
}

// equal reports whether two lists of records have the same keys, revisions and values.
func equal(a, b []store.Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || a[i].Revision != b[i].Revision || !bytes.Equal(a[i].Value.Bytes(), b[i].Value.Bytes()) {
			return false
		}
	}
	return true
}

// REP-19: a new life deletes what is under live/ and begins new epochs in one step: if a part of it fails, nothing of it
// happens.
func TestREP19NewLifeIsOneStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, sqlite.Options{})
	e := enter(t, s)
	l, err := e.OpenLog(t.Context(), "log", store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	on := mustCommit(t, e, write("live/a", "x", 0), write("live/b", "y", 0), write("livery", "z", 0))
	before, _ := scanAll(t, e, "", 10)
	exec1(t, path, "CREATE TRIGGER fault BEFORE UPDATE ON logs BEGIN SELECT raise(ABORT, 'a fault'); END")
	if err := e.NewLife(t.Context()); err == nil || !strings.Contains(err.Error(), "a fault") {
		t.Errorf("a new life that fails: %v", err)
	}
	if after, _ := scanAll(t, e, "", 10); !equal(before, after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	mustCommit(t, e, write("livery", "zz", on[2])) // still in the life
	exec1(t, path, "DROP TRIGGER fault")
	if err := e.NewLife(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, _ := scanAll(t, e, "", 10); fmt.Sprint(keys(all)) != "[livery]" {
		t.Errorf("after the new life: %v", keys(all))
	}
	epoch := l.Epoch()
	life := must(e.Enter(t.Context()))
	l2 := must(e.OpenLog(t.Context(), "log", store.LogOptions{}))
	if l2.Epoch() == epoch {
		t.Error("the epoch goes on")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, path, sqlite.Options{}).Engine()
	if again := must(e.Enter(t.Context())); again != life {
		t.Errorf("life %d, then %d", life, again)
	}
	if l := must(e.OpenLog(t.Context(), "log", store.LogOptions{})); l.Epoch() != l2.Epoch() {
		t.Error("the new epoch did not survive")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// REP-19: commits and appends that wait with a new life in one transaction are judged in their order.
func TestREP19NewLifeInAGroup(t *testing.T) {
	s := fresh(t)
	e := enter(t, s)
	l := must(e.OpenLog(t.Context(), "log", store.LogOptions{}))
	release := s.Stall(t)
	results := make([]error, 4)
	var wg sync.WaitGroup
	for i, f := range []func() error{
		func() error { _, err := commit(t.Context(), e, write("before", "x", 0)); return err },
		func() error { return e.NewLife(t.Context()) },
		func() error { _, err := commit(t.Context(), e, write("after", "x", 0)); return err },
		func() error { _, err := l.Append(t.Context(), engine.Append{Entry: entry("a")}); return err },
	} {
		wg.Go(func() { results[i] = f() })
		s.AwaitQueued(i + 1)
	}
	release(4)
	wg.Wait()
	if results[0] != nil || results[1] != nil || !errors.Is(results[2], engine.ErrNewLife) || !errors.Is(results[3], engine.ErrNewLife) {
		t.Errorf("results %v", results)
	}
	e = enter(t, s)
	if all, _ := scanAll(t, e, "", 10); fmt.Sprint(keys(all)) != "[before]" {
		t.Errorf("stored: %v", keys(all))
	}
	l = must(e.OpenLog(t.Context(), "log", store.LogOptions{}))
	if _, head, err := l.Bounds(t.Context()); head != 0 || err != nil {
		t.Errorf("head %d, %v", head, err)
	}
}
