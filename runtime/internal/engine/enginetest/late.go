package enginetest

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var lateTests = []test{
	{"A copy of a commit that arrives late is refused", testLate},
	{"A deletion is remembered for TombstoneAge, and not much longer", testTombstoneAge},
	{"Once: the deletion is not remembered", testOnceRecord},
	{"Until: the store deletes the record by itself", testUntil},
	{"Until and Once: the store deletes the record and does not remember it", testUntilOnce},
}

func testLate(t *testing.T, w *world) {
	a, b := w.pair()
	hold := put(t, a, "hold", "a", 0)
	c := &store.Commit{Call: newCall(), Guards: []store.Guard{{Key: "hold", Revision: hold}}, Writes: []store.Write{{Key: "p", Value: text("1")}, {Key: "q", Value: text("1")}}}
	on := apply(t, a, c)
	conflict(t, a, c, "p", "q") // while its own records stand
	if r := get(t, b, "p"); r.Call != c.Call {
		t.Errorf("Call %d does not show that the commit %d was applied", r.Call, c.Call)
	}
	replace := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "p", On: on[0], Value: text("2")}}}
	two := apply(t, b, replace)[0]
	conflict(t, a, c, "p", "q")
	conflict(t, b, replace, "p")
	drop := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "p", On: two}, {Key: "q", On: on[1]}}}
	gone := apply(t, b, drop)
	conflict(t, a, c, "p", "q") // does not create the records again
	conflict(t, a, replace, "p")
	conflict(t, a, drop, "p", "q")
	three := put(t, a, "p", "3", gone[0])
	conflict(t, b, c, "p", "q")
	conflict(t, b, drop, "p", "q")
	if r := get(t, b, "p"); r.Revision != three || textOf(r.Value) != "3" {
		t.Errorf("p is %q", textOf(r.Value))
	}
}

func testTombstoneAge(t *testing.T, w *world) {
	a, b := w.pair()
	create := &store.Commit{Call: newCall(), Writes: []store.Write{{Key: "a", Value: text("1")}}}
	gone := remove(t, b, "a", apply(t, a, create)[0])
	w.age(a, store.TombstoneAge-10*time.Second)
	put(t, b, "other", "1", 0) // commits and scans may delete what is old
	everything(t, b)
	conflict(t, a, create, "a")
	if r := get(t, b, "a"); r.Revision != gone || r.Value != nil {
		t.Errorf("before TombstoneAge: %+v, want revision %d", r, gone)
	}
	w.age(a, store.TombstoneAge)
	eventually(t, "the deletion is forgotten", func() bool { return get(t, b, "a").Revision == 0 })
	conflict(t, a, &store.Commit{Writes: []store.Write{{Key: "a", On: gone, Value: text("late")}}}, "a")
	if next := put(t, a, "a", "2", 0); next == gone {
		t.Error("a revision came back")
	}
}

func testOnceRecord(t *testing.T, w *world) {
	a, b := w.pair()
	on := write(t, a, store.Write{Key: "a", Value: text("1"), Once: true})
	conflict(t, b, &store.Commit{Writes: []store.Write{{Key: "a", Value: text("2"), Once: true}}}, "a")
	two := write(t, b, store.Write{Key: "a", On: on, Value: text("2"), Once: true})
	remove(t, a, "a", two)
	if r := get(t, b, "a"); r.Value != nil || r.Revision != 0 {
		t.Errorf("the deletion is remembered: %+v", r)
	}
	for _, revision := range []uint64{on, two} {
		conflict(t, b, &store.Commit{Writes: []store.Write{{Key: "a", On: revision, Value: text("late"), Once: true}}}, "a")
	}
	// A write without Once takes the promise back.
	on = write(t, a, store.Write{Key: "b", Value: text("1"), Once: true})
	gone := remove(t, a, "b", put(t, b, "b", "2", on))
	if r := get(t, b, "b"); r.Revision != gone {
		t.Errorf("the deletion has revision %d, want %d", r.Revision, gone)
	}
}

func testUntil(t *testing.T, w *world) {
	a, b := w.pair()
	until := clock(t, a).Add(10 * time.Minute)
	create := &store.Commit{Call: newCall()}
	for _, key := range []string{"short", "longer", "forever", "again"} {
		create.Writes = append(create.Writes, store.Write{Key: "u/" + key, Value: text("1"), Until: until})
	}
	on := apply(t, a, create)
	write(t, b, store.Write{Key: "u/longer", On: on[1], Value: text("2"), Until: until.Add(time.Hour)})
	put(t, b, "u/forever", "2", on[2])
	w.age(a, 9*time.Minute)
	if got := keysOf(scan(t, b, "u/", 10)); len(got) != 4 {
		t.Errorf("before Until: %v", got)
	}
	apply(t, b, &store.Commit{Guards: []store.Guard{{Key: "u/short", Revision: on[0]}}})
	w.age(a, 2*time.Minute+time.Second) // Until and the minute in which the store deletes
	if got := keysOf(scan(t, b, "u/", 10)); len(got) != 2 || got[0] != "u/forever" || got[1] != "u/longer" {
		t.Errorf("after Until: %v", got)
	}
	short := get(t, a, "u/short")
	if short.Value != nil || short.Revision == 0 || short.Revision == on[0] {
		t.Errorf("after Until: %+v; the record had revision %d", short, on[0])
	}
	conflict(t, b, create, "u/short", "u/longer", "u/forever", "u/again") // does not create the records again
	conflict(t, b, &store.Commit{Guards: []store.Guard{{Key: "u/short", Revision: on[0]}}}, "u/short")
	conflict(t, b, &store.Commit{Writes: []store.Write{{Key: "u/again", On: on[3], Value: text("late")}}}, "u/again")
	put(t, b, "u/again", "2", get(t, a, "u/again").Revision)
	w.age(a, time.Hour+time.Minute)
	if got := keysOf(scan(t, a, "u/", 10)); len(got) != 2 || got[0] != "u/again" || got[1] != "u/forever" {
		t.Errorf("after the longer Until: %v", got)
	}
	eventually(t, "the deletion is forgotten", func() bool { return get(t, b, "u/short").Revision == 0 })
}

func testUntilOnce(t *testing.T, w *world) {
	a, b := w.pair()
	on := write(t, a, store.Write{Key: "a", Value: text("1"), Once: true, Until: clock(t, a).Add(time.Minute)})
	if r := get(t, b, "a"); r.Revision != on {
		t.Errorf("before Until: %+v", r)
	}
	w.age(a, 2*time.Minute+time.Second)
	if r := get(t, b, "a"); r.Value != nil || r.Revision != 0 {
		t.Errorf("after Until: %+v", r)
	}
	if all := everything(t, b); len(all) != 0 {
		t.Errorf("after Until: %v", keysOf(all))
	}
}
