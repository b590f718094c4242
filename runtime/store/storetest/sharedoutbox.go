package storetest

import (
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// prepared is an occurrence for the outbox.
type prepared store.Outgoing

func (p prepared) Outgoing() store.Outgoing { return store.Outgoing(p) }

func outgoing(id string) prepared { return prepared{Log: "log", Entry: entry(id), Once: true} }

// sequencer owns the outbox and returns what moves it until it is empty.
func sequencer(t *testing.T, s store.Shared) (h store.Hold, drain func()) {
	t.Helper()
	must(s.Establish(t.Context(), store.OutboxTopic, 1))(t)
	h = hold(t, s, join(t, s, "sequencer"), store.OutboxTopic, 0)
	return h, func() {
		t.Helper()
		for more := true; more; {
			more = must(s.(store.Outbox).Sequence(t.Context(), h, 3))(t)
		}
	}
}

func sharedOutbox(t *testing.T, a, b store.Shared, begin func(*testing.T, store.Shared) Transaction) {
	var w witness
	openLog(t, b, "log", w.options())
	_, drain := sequencer(t, a)
	tx, undone := begin(t, b), begin(t, b)
	for i := range 7 {
		ok(t, tx.Emit(outgoing(fmt.Sprint("e", i))))
		ok(t, undone.Emit(outgoing(fmt.Sprint("never", i))))
	}
	other := outgoing("elsewhere")
	other.Log = "another log" // that nobody has opened
	ok(t, tx.Emit(other))
	drain()
	if l := openLog(t, a, "log", store.LogOptions{}); read(t, l, 0, 1).Head != 0 {
		t.Fatal("visible before the commit")
	}
	ok(t, undone.Rollback())
	ok(t, tx.Commit())
	second := begin(t, a)
	special := outgoing("last")
	special.Entry.Targets, special.Entry.Meta = []string{"sub_1"}, []byte(`{"k":1}`)
	ok(t, second.Emit(special))
	ok(t, second.Commit())
	drain()
	drain()
	eventually(t, "everything is told", func() bool { return w.has("last") })
	equal(t, w.ids(), []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "last"})
	last := w.all()[7]
	if last.Position != 8 || last.Targets[0] != "sub_1" || string(last.Meta) != `{"k":1}` || last.Timestamp.String() != special.Entry.Timestamp.String() {
		t.Fatalf("%+v", last)
	}
	if l := openLog(t, b, "another log", store.LogOptions{}); read(t, l, 0, 9).Head != 1 {
		t.Fatal("the log that nobody had opened has nothing")
	}
}

func sharedOutboxLate(t *testing.T, a, b store.Shared, begin func(*testing.T, store.Shared) Transaction) {
	var w witness
	openLog(t, b, "log", w.options())
	_, drain := sequencer(t, a)
	early := begin(t, a)
	ok(t, early.Emit(outgoing("early")))
	for i := range 5 {
		tx := begin(t, b)
		ok(t, tx.Emit(outgoing(fmt.Sprint("t", i))))
		ok(t, tx.Commit())
	}
	drain()
	ok(t, early.Commit())
	drain()
	eventually(t, "the late one is told", func() bool { return w.has("early") })
	equal(t, w.ids(), []string{"t0", "t1", "t2", "t3", "t4", "early"})
}

func sharedOutboxOnce(t *testing.T, a, b store.Shared, begin func(*testing.T, store.Shared) Transaction) {
	l := openLog(t, b, "log", store.LogOptions{})
	once(t, l, entry("x"), 0, 1, true)
	_, drain := sequencer(t, a)
	tx := begin(t, a)
	for _, p := range []prepared{outgoing("x"), outgoing("y"), outgoing("y"), {Log: "log", Entry: with(entry("x"), `{}`), Once: true},
		{Log: "log", Entry: entry("y")}, {Log: "log", Entry: entry("x"), Once: true, Above: 1}} {
		ok(t, tx.Emit(p))
	}
	ok(t, tx.Commit())
	drain()
	sl := l.(store.SharedLog)
	if _, err := sl.CatchUp(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range read(t, l, 0, 10).Entries {
		ids = append(ids, e.EventID)
	}
	equal(t, ids, []string{"x", "y", "y", "x"})
	_, _, err := l.AppendOnce(t.Context(), with(entry("y"), `{}`), 0)
	is(t, err, events.ErrIDReused)
}

func sharedOutboxFence(t *testing.T, a, b store.Shared, begin func(*testing.T, store.Shared) Transaction) {
	h, _ := sequencer(t, a)
	tx := begin(t, a)
	ok(t, tx.Emit(outgoing("x")))
	ok(t, tx.Commit())
	ok(t, a.Leave(t.Context(), h.Fence))
	next, drain := sequencer(t, b)
	_, err := a.(store.Outbox).Sequence(t.Context(), h, 10)
	is(t, err, store.ErrFenced)
	_, err = b.(store.Outbox).Sequence(t.Context(), store.Hold{Shard: store.Shard{Topic: "event"}, Fence: next.Fence}, 10)
	is(t, err, store.ErrFenced)
	l := openLog(t, b, "log", store.LogOptions{})
	if read(t, l, 0, 1).Head != 0 {
		t.Fatal("moved by somebody else")
	}
	drain()
	if read(t, l, 0, 1).Head != 1 {
		t.Fatal("not moved by the owner")
	}
}
