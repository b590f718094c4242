package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var commitTests = []test{
	{"A commit creates, replaces and deletes records for all processes", testCommit},
	{"A conflict lists the moved keys and writes nothing", testConflict},
	{"Revisions are never reused", testRevisions},
	{"A commit of the maximum size", testMaxCommit},
	{"Values and keys of the maximum size", testMaxRecord},
	{"A malformed commit is refused and writes nothing", testMalformed},
	{"A cancelled context writes nothing", testCancelled},
}

func testCommit(t *testing.T, w *world) {
	a, b := w.pair()
	create := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "x/1", Value: text("one")}, {Key: "x/2", Value: text("")}}}
	on := apply(t, a, create)
	want := func(key, value string, revision, call uint64) {
		t.Helper()
		for _, e := range []engine.Engine{a, b} {
			if r := get(t, e, key); textOf(r.Value) != value || r.Revision != revision || r.Call != call {
				t.Errorf("%s: got %q, revision %d, call %d; want %q, %d, %d", key, textOf(r.Value), r.Revision, r.Call, value, revision, call)
			}
		}
	}
	want("x/1", "one", on[0], create.Call)
	want("x/2", "", on[1], create.Call)
	want("x/3", "<none>", 0, 0)
	replace := &store.Commit{Call: newCall(), Guards: []store.Guard{{Key: "x/2", Revision: on[1]}}, Writes: []store.Write{{Key: "x/1", On: on[0], Value: text("two")}}}
	two := apply(t, b, replace)[0]
	want("x/1", "two", two, replace.Call)
	want("x/2", "", on[1], create.Call)
	drop := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "x/3", Value: text("three")}, {Key: "x/1", On: two}}}
	last := apply(t, a, drop)
	want("x/3", "three", last[0], drop.Call)
	want("x/1", "<none>", last[1], drop.Call)
	again := put(t, b, "x/1", "again", last[1])
	if r := get(t, a, "x/1"); r.Revision != again || textOf(r.Value) != "again" {
		t.Errorf("created again: %+v", r)
	}
	// A commit without writes checks its guards.
	apply(t, a, &store.Commit{Guards: []store.Guard{{Key: "x/1", Revision: again}}})
}

func testConflict(t *testing.T, w *world) {
	a, b := w.pair()
	one, two := put(t, a, "a", "1", 0), put(t, a, "b", "1", 0)
	gone := remove(t, a, "gone", put(t, a, "gone", "1", 0))
	moved := put(t, b, "a", "2", one)
	for _, tc := range []struct {
		name string
		c    store.Commit
		keys []string
	}{
		{"an older revision", store.Commit{Writes: []store.Write{{Key: "a", On: one, Value: text("x")}}}, []string{"a"}},
		{"a creation of an existing record", store.Commit{Writes: []store.Write{{Key: "a", Value: text("x")}}}, []string{"a"}},
		{"a replacement of nothing", store.Commit{Writes: []store.Write{{Key: "none", On: one, Value: text("x")}}}, []string{"none"}},
		{"a deletion of nothing", store.Commit{Writes: []store.Write{{Key: "none", On: one}}}, []string{"none"}},
		{"a deletion at an older revision", store.Commit{Writes: []store.Write{{Key: "a", On: one}}}, []string{"a"}},
		{"a creation after a deletion", store.Commit{Writes: []store.Write{{Key: "gone", Value: text("x")}}}, []string{"gone"}},
		{"a guard at an older revision", store.Commit{Guards: []store.Guard{{Key: "a", Revision: one}}, Writes: []store.Write{{Key: "new", Value: text("x")}}}, []string{"a"}},
		{"a guard of nothing", store.Commit{Guards: []store.Guard{{Key: "none", Revision: one}}, Writes: []store.Write{{Key: "new", Value: text("x")}}}, []string{"none"}},
		{"a guard alone", store.Commit{Guards: []store.Guard{{Key: "a", Revision: one}}}, []string{"a"}},
		{"some of several", store.Commit{
			Guards: []store.Guard{{Key: "b", Revision: two}, {Key: "none", Revision: moved}},
			Writes: []store.Write{{Key: "a", On: moved, Value: text("x")}, {Key: "gone", On: one, Value: text("x")}, {Key: "new", Value: text("x")}},
		}, []string{"none", "gone"}},
	} {
		t.Log(tc.name)
		conflict(t, a, &tc.c, tc.keys...)
	}
	for key, on := range map[string]uint64{"a": moved, "b": two, "gone": gone} {
		if r := get(t, b, key); r.Revision != on {
			t.Errorf("%s has revision %d, want %d", key, r.Revision, on)
		}
	}
	apply(t, b, &store.Commit{Guards: []store.Guard{{Key: "gone", Revision: gone}}, Writes: []store.Write{{Key: "a", On: moved}}})
}

func testRevisions(t *testing.T, w *world) {
	a, b := w.pair()
	seen := map[uint64]bool{0: true}
	on := uint64(0)
	note := func(revision uint64) {
		t.Helper()
		if seen[revision] {
			t.Fatalf("revision %d again", revision)
		}
		seen[revision], on = true, revision
	}
	for i := range 20 {
		note(put(t, a, "k", "same", on))
		note(put(t, b, "k", "same", on))
		note(remove(t, []engine.Engine{a, b}[i%2], "k", on))
	}
	for revision := range seen {
		if revision != on {
			conflict(t, a, &store.Commit{Writes: []store.Write{{Key: "k", On: revision, Value: text("late")}}}, "k")
		}
	}
}

func testMaxCommit(t *testing.T, w *world) {
	a, b := w.pair()
	key := func(i int) string { return fmt.Sprintf("many/%d", i) }
	all := func(value string, on []uint64) *store.Commit {
		c := &store.Commit{}
		for i := range store.MaxCommit {
			wr := store.Write{Key: key(i), Value: text(value)}
			if on != nil {
				wr.On = on[i]
			}
			c.Writes = append(c.Writes, wr)
		}
		return c
	}
	created := apply(t, a, all("1", nil))
	var keys []string
	for i := range store.MaxCommit {
		keys = append(keys, key(i))
	}
	conflict(t, a, all("x", nil), keys...)
	replaced := apply(t, b, all("2", created))
	other := put(t, a, key(77), "other", replaced[77])
	conflict(t, b, all("x", replaced), key(77))
	replaced[77] = other
	guarded := all("3", replaced)
	for i := range 500 {
		wr := guarded.Writes[i]
		guarded.Guards = append(guarded.Guards, store.Guard{Key: wr.Key, Revision: wr.On})
	}
	guarded.Writes = guarded.Writes[500:]
	copy(replaced[500:], apply(t, b, guarded))
	for i, r := range scan(t, a, "many/", 400) {
		want := "2"
		switch n := slices.Index(keys, r.Key); {
		case n == 77:
			want = "other"
		case n >= 500:
			want = "3"
		}
		if textOf(r.Value) != want {
			t.Fatalf("record %d, %s: %s, want %s", i, r.Key, textOf(r.Value), want)
		}
	}
	drop := all("", replaced)
	for i := range drop.Writes {
		drop.Writes[i].Value = nil
	}
	apply(t, a, drop)
	if left := scan(t, b, "", 400); len(left) != 0 {
		t.Errorf("%d records are left", len(left))
	}
}

func testMaxRecord(t *testing.T, w *world) {
	a, b := w.pair()
	long := strings.Repeat("k", store.MaxKey-2) + "/x"
	large := strings.Repeat("\x00é\xff", store.MaxValue/4)
	on := put(t, a, long, large, 0)
	if r := get(t, b, long); textOf(r.Value) != large || r.Revision != on {
		t.Errorf("a value of %d bytes came back with %d", len(large), len(textOf(r.Value)))
	}
	apply(t, b, &store.Commit{Guards: []store.Guard{{Key: long, Revision: on}}, Writes: []store.Write{{Key: "-_.=/Az09", Value: text("v")}}, Tell: []string{long}})
	if got := keysOf(everything(t, a)); !slices.Equal(got, []string{"-_.=/Az09", long}) {
		t.Errorf("keys %v", got)
	}
	remove(t, b, long, on)
}

// manyOf returns a commit with n guards, n writes and n names.
func manyOf(guards, writes, names int) store.Commit {
	c := store.Commit{Call: 1}
	for i := range guards {
		c.Guards = append(c.Guards, store.Guard{Key: fmt.Sprint("g", i), Revision: 1})
	}
	for i := range writes {
		c.Writes = append(c.Writes, store.Write{Key: fmt.Sprint("w", i), Value: text("v")})
	}
	for i := range names {
		c.Tell = append(c.Tell, fmt.Sprint("n", i))
	}
	return c
}

func testMalformed(t *testing.T, w *world) {
	e := w.process()
	good := store.Write{Key: "good", Value: text("v")}
	on := put(t, e, "there", "v", 0)
	mark := changes(t, e, "").Next
	malformed := []store.Commit{
		{Writes: []store.Write{good}}, // no Call
		{Call: 1},
		manyOf(0, store.MaxCommit+1, 0), manyOf(1, store.MaxCommit, 0), manyOf(store.MaxCommit+1, 0, 0), manyOf(0, 1, store.MaxCommit+1),
		{Call: 1, Writes: []store.Write{good, good}},
		{Call: 1, Writes: []store.Write{good, {Key: "there", On: on}}, Guards: []store.Guard{{Key: "there", Revision: on}}},
		{Call: 1, Writes: []store.Write{good}, Guards: []store.Guard{{Key: "there", Revision: on}, {Key: "there", Revision: on}}},
		{Call: 1, Writes: []store.Write{good}, Guards: []store.Guard{{Key: "there"}}},
		{Call: 1, Writes: []store.Write{good, {Key: "deleted"}}},
		{Call: 1, Writes: []store.Write{good}, Tell: []string{""}},
		{Call: 1, Writes: []store.Write{good}, Tell: []string{strings.Repeat("x", store.MaxKey+1)}},
	}
	for _, key := range []string{"", "/", "/a", "a/", "a//b", "a b", "a\x00", "é", "a*", "a>", "a'", "a%", "a\n", "a~", "a:", strings.Repeat("k", store.MaxKey+1)} {
		malformed = append(malformed, store.Commit{Call: 1, Writes: []store.Write{good, {Key: key, Value: text("v")}}},
			store.Commit{Call: 1, Writes: []store.Write{good}, Guards: []store.Guard{{Key: key, Revision: 1}}})
	}
	for i, c := range malformed {
		_, err := e.Commit(t.Context(), &c)
		if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUncertain) {
			t.Errorf("commit %d (%.80v): %v", i, c, err)
		}
	}
	if got := keysOf(everything(t, e)); !slices.Equal(got, []string{"there"}) {
		t.Errorf("malformed commits wrote %v", got)
	}
	if c := changes(t, e, mark); len(c.Names) != 0 {
		t.Errorf("malformed commits told %v", c.Names)
	}
}

func testCancelled(t *testing.T, w *world) {
	e := w.process()
	on := put(t, e, "a", "1", 0)
	mark := changes(t, e, "").Next
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Commit(ctx, &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "a", On: on, Value: text("2")}}, Tell: []string{"a"}})
	is(t, "Commit", err, context.Canceled)
	allReturn(ctx, t, e, mark, context.Canceled)
	if r := get(t, e, "a"); r.Revision != on {
		t.Errorf("a cancelled commit wrote %q", textOf(r.Value))
	}
	if c := changes(t, e, mark); len(c.Names) != 0 {
		t.Errorf("a cancelled commit told %v", c.Names)
	}
}
