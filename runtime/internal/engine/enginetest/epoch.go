package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// epochTests are about the lives of logs.
var epochTests = []test{
	{"REP-19, CUR-8: a new life begins new epochs and keeps the entries", testEpochs},
	{"A durable store has its entries and epochs after a restart", testRestartLog},
}

// over expects that a log of an earlier life can no longer be used.
func over(t *testing.T, l engine.Log) {
	t.Helper()
	_, err := l.Append(t.Context(), engine.Append{Entry: entry("late")})
	is(t, "Append", err, engine.ErrNewLife)
	eventually(t, "a log of before is over", func() bool {
		_, err := l.CatchUp(t.Context(), 1)
		return errors.Is(err, engine.ErrNewLife)
	})
}

func testEpochs(t *testing.T, w *world) {
	a, b := w.pair()
	var before, after [2]witness
	names := []string{"log", "other"}
	logs := map[string][]engine.Log{}
	for _, name := range names {
		for i, e := range []engine.Engine{a, b} {
			logs[name] = append(logs[name], openLog(t, e, name, before[i].options()))
		}
	}
	group(t, logs["log"][0], once("e1", "e2", "e3")...)
	proven := proof(t, logs["log"][0], 2)
	eventually(t, "the other process gets them", func() bool { return len(before[1].all()) == 3 })
	if err := b.NewLife(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		over(t, logs[name][0])
		over(t, logs[name][1])
	}
	for i, e := range []engine.Engine{a, b} {
		enter(t, e)
		for _, name := range names {
			over(t, logs[name][i]) // for good
			l := openLog(t, e, name, after[i].options())
			if l.Epoch() == logs[name][i].Epoch() || l.Epoch() == 0 {
				t.Errorf("%s had the epoch %d, now %d", name, logs[name][i].Epoch(), l.Epoch())
			}
			logs[name][i] = l
		}
		if i == 0 { // b has not entered
			done := group(t, logs["log"][0], once("e2", "e4")...)
			if !slices.Equal(done, []engine.Appended{{Position: 2}, {Position: 4, Fresh: true}}) {
				t.Errorf("got %+v", done)
			}
		}
	}
	l, other := logs["log"], logs["other"]
	if l[0].Epoch() != l[1].Epoch() || l[0].Epoch() == other[0].Epoch() {
		t.Errorf("epochs %d and %d of a log, %d of another one", l[0].Epoch(), l[1].Epoch(), other[0].Epoch())
	}
	if got := contents(t, l[1]); !slices.Equal(got, []string{"e1", "e2", "e3", "e4"}) || proof(t, l[1], 2) != proven {
		t.Errorf("the log has %v", got)
	}
	group(t, l[0], once("e5")...)
	eventually(t, "the other process gets an entry", func() bool { return slices.Equal(after[1].ids(), []string{"e5"}) })
	for i := range before {
		if n := len(before[i].all()); a != b && n != 3 {
			t.Errorf("process %d: the Appended of before got %d entries", i, n)
		}
	}
}

func testRestartLog(t *testing.T, w *world) {
	if !w.c.Durable {
		t.Skip("the store does not survive its engine")
	}
	e := w.process()
	l := openLog(t, e, "log", store.LogOptions{MaxCount: 5})
	group(t, l, once("e1", "e2", "e3", "e4", "e5", "e6", "e7")...)
	want := []string{"e3", "e4", "e5", "e6", "e7"}
	eventually(t, "retention deletes", func() bool {
		oldest, _ := bounds(t, l)
		return oldest == 3
	})
	epoch, evicted := l.Epoch(), proof(t, l, 2)
	for i := range 2 {
		e = w.restart(e)
		var seen witness
		o := seen.options()
		o.MaxCount = 5 + i
		l = openLog(t, e, "log", o)
		b := read(t, l, 0, 10)
		if got := idsOf(b.Entries); !slices.Equal(got, want) || !b.Gap || l.Epoch() != epoch {
			t.Errorf("restart %d: entries %v, epoch %d; want %v, %d", i, got, l.Epoch(), want, epoch)
		}
		if got := proof(t, l, b.Oldest-1); i == 0 && got != evicted {
			t.Errorf("restart %d: the last evicted entry has the proof %d, want %d", i, got, evicted)
		}
		id := fmt.Sprint("next", i)
		done := group(t, l, once("e7", id)...)
		if done[0].Fresh || done[0].Position != 7 || !done[1].Fresh || done[1].Position != store.Position(8+i) {
			t.Errorf("restart %d: %+v", i, done)
		}
		if got := seen.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("restart %d: Appended got %v", i, got)
		}
		if want = append(want, id); i == 0 {
			want = want[1:]
			eventually(t, "retention deletes", func() bool {
				oldest, _ := bounds(t, l)
				return oldest == 4
			})
		}
	}
}
