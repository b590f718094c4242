package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// prepared implements [store.Prepared].
type prepared store.Outgoing

func (p prepared) Outgoing() store.Outgoing { return store.Outgoing(p) }

func outgoing(id string) prepared { return prepared{Log: "log", Entry: check.Entry(id), Once: true} }

// checkOutgoing rejects occurrences with ids that begin with "bad". It returns an error for ids that begin with
// "unknown".
func checkOutgoing(_ context.Context, o store.Outgoing) (fault, err error) {
	switch {
	case strings.HasPrefix(o.Entry.EventID, "bad"):
		return errors.New("bad occurrence"), nil
	case strings.HasPrefix(o.Entry.EventID, "unknown"):
		return nil, errors.New("cannot decide")
	}
	return nil, nil
}

// claimOutbox claims the outbox. The function drain moves occurrences until the outbox is empty.
func claimOutbox(t *testing.T, s engine.Shared, of engine.Outbox) (h engine.ShardFence, drain func()) {
	t.Helper()
	check.Must(s.Establish(t.Context(), engine.OutboxTopic, 1))(t)
	h = claimShard(t, s, join(t, s, "sequencer"), engine.OutboxTopic, 0)
	return h, func() {
		t.Helper()
		for more := true; more; {
			more = check.Must(of.Sequence(t.Context(), h, 3, checkOutgoing))(t).More
		}
	}
}

func sharedOutbox(t *testing.T, a, b engine.Shared, o Shared) {
	var w witness
	check.OpenLog(t, b, "log", w.options())
	_, drain := claimOutbox(t, a, o.Outbox(t, a))
	tx, undone := o.Begin(t, b), o.Begin(t, b)
	for i := range 7 {
		ok(t, tx.Emit(outgoing(fmt.Sprint("e", i))))
		ok(t, undone.Emit(outgoing(fmt.Sprint("never", i))))
	}
	other := outgoing("elsewhere")
	other.Log = "another log" // that b has not opened
	check.OpenLog(t, a, "another log", store.LogOptions{})
	ok(t, tx.Emit(other))
	drain()
	if l := check.OpenLog(t, a, "log", store.LogOptions{}); check.Read(t, l, 0, 1).Head != 0 {
		t.Fatal("visible before the commit")
	}
	ok(t, undone.Rollback())
	ok(t, tx.Commit())
	second := o.Begin(t, a)
	special := outgoing("last")
	special.Entry.Targets, special.Entry.Meta = []string{"sub_1"}, []byte(`{"k":1}`)
	ok(t, second.Emit(special))
	ok(t, second.Commit())
	drain()
	drain()
	WaitUntil(t, "everything is delivered", func() bool { return w.has("last") })
	check.Equal(t, w.ids(), []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "last"})
	last := w.all()[7]
	if last.Position != 8 || last.Targets[0] != "sub_1" || string(last.Meta) != `{"k":1}` || last.Timestamp.String() != special.Entry.Timestamp.String() {
		t.Fatalf("%+v", last)
	}
	if l := check.OpenLog(t, b, "another log", store.LogOptions{}); check.Read(t, l, 0, 9).Head != 1 {
		t.Fatal("the other log has nothing")
	}
}

func sharedOutboxLate(t *testing.T, a, b engine.Shared, o Shared) {
	var w witness
	check.OpenLog(t, b, "log", w.options())
	_, drain := claimOutbox(t, a, o.Outbox(t, a))
	early := o.Begin(t, a)
	ok(t, early.Emit(outgoing("early")))
	for i := range 5 {
		tx := o.Begin(t, b)
		ok(t, tx.Emit(outgoing(fmt.Sprint("t", i))))
		ok(t, tx.Commit())
	}
	drain()
	ok(t, early.Commit())
	drain()
	WaitUntil(t, "the late one is delivered", func() bool { return w.has("early") })
	check.Equal(t, w.ids(), []string{"t0", "t1", "t2", "t3", "t4", "early"})
}

func sharedOutboxOnce(t *testing.T, a, b engine.Shared, o Shared) {
	l := check.OpenLog(t, b, "log", store.LogOptions{})
	check.Once(t, l, check.Entry("x"), 0, 1, true)
	_, drain := claimOutbox(t, a, o.Outbox(t, a))
	tx := o.Begin(t, a)
	for _, p := range []prepared{outgoing("x"), outgoing("y"), outgoing("y"), {Log: "log", Entry: check.With(check.Entry("x"), `{}`), Once: true},
		{Log: "log", Entry: check.Entry("generated")}, {Log: "log", Entry: check.Entry("x"), Once: true, Above: 1}} {
		ok(t, tx.Emit(p))
	}
	ok(t, tx.Commit())
	drain()
	sl := l.(engine.Log)
	if _, err := sl.CatchUp(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range check.Read(t, l, 0, 10).Entries {
		ids = append(ids, e.EventID)
	}
	check.Equal(t, ids, []string{"x", "y", "generated", "x"})
	_, _, err := l.AppendOnce(t.Context(), check.With(check.Entry("y"), `{}`), 0)
	is(t, err, events.ErrIDReused)
}

func sharedOutboxFence(t *testing.T, a, b engine.Shared, o Shared) {
	h, _ := claimOutbox(t, a, o.Outbox(t, a))
	tx := o.Begin(t, a)
	ok(t, tx.Emit(outgoing("x")))
	ok(t, tx.Commit())
	ok(t, a.Leave(t.Context(), h.Fence))
	next, drain := claimOutbox(t, b, o.Outbox(t, b))
	_, err := o.Outbox(t, a).Sequence(t.Context(), h, 10, checkOutgoing)
	is(t, err, engine.ErrFenced)
	_, err = o.Outbox(t, b).Sequence(t.Context(), engine.ShardFence{Shard: engine.Shard{Topic: "event"}, Fence: next.Fence}, 10, checkOutgoing)
	is(t, err, engine.ErrFenced)
	l := check.OpenLog(t, b, "log", store.LogOptions{})
	if check.Read(t, l, 0, 1).Head != 0 {
		t.Fatal("moved without ownership")
	}
	drain()
	if check.Read(t, l, 0, 1).Head != 1 {
		t.Fatal("not moved by the owner")
	}
}

// Invalid occurrences are rejected in outbox order, and can be moved after they are put back. Valid occurrences are
// moved to the same log and to other logs.
func sharedOutboxRejects(t *testing.T, a, b engine.Shared, o Shared) {
	of := o.Outbox(t, a)
	l, other := check.OpenLog(t, b, "log", store.LogOptions{}), check.OpenLog(t, b, "other", store.LogOptions{})
	check.OpenLog(t, a, engine.ControlLog, store.LogOptions{})
	h, drain := claimOutbox(t, a, of)
	emit := func(log string, ids ...string) {
		t.Helper()
		tx := o.Begin(t, a)
		for _, id := range ids {
			p := outgoing(id)
			p.Log = log
			ok(t, tx.Emit(p))
		}
		ok(t, tx.Commit())
	}
	heads := func(want, wantOther store.Position) {
		t.Helper()
		for l, want := range map[store.EventLog]store.Position{l: want, other: wantOther} {
			if got := check.Must(l.(engine.Log).CatchUp(t.Context(), want+1))(t); got != want {
				t.Fatalf("a log has %d entries, want %d", got, want)
			}
		}
	}
	emit("log", "bad1", "1", "bad2", "2")
	emit(engine.ControlLog, "order")
	emit("no such log", "lost")
	emit("other", "3")
	drain()
	heads(2, 1)
	rejected := check.Must(of.Rejected(t.Context(), 0, 10))(t)
	var ids []string
	for i, r := range rejected {
		ids = append(ids, r.EventID)
		if r.Reason == "" || r.At.IsZero() || r.Bytes == 0 || i > 0 && r.ID <= rejected[i-1].ID {
			t.Errorf("%+v", r)
		}
	}
	// A step takes few occurrences, and its order across logs is not fixed.
	check.Equal(t, ids, []string{"bad1", "bad2", "order", "lost"})
	if r := rejected[2]; r.Log != engine.ControlLog || !strings.Contains(r.Reason, engine.ControlLog) {
		t.Errorf("%+v", r)
	}
	if c := check.OpenLog(t, a, engine.ControlLog, store.LogOptions{}); check.Read(t, c, 0, 1).Head != 0 {
		t.Fatal("an order came through the outbox")
	}
	if some := check.Must(of.Rejected(t.Context(), rejected[0].ID, 1))(t); len(some) != 1 || some[0].EventID != "bad2" {
		t.Fatalf("the second page is %+v", some)
	}
	// The log is now open, so put the occurrence back. Drop the others.
	lost := check.OpenLog(t, b, "no such log", store.LogOptions{})
	if !check.Must(of.PutBack(t.Context(), rejected[3].ID))(t) || check.Must(of.PutBack(t.Context(), rejected[3].ID))(t) {
		t.Fatal("PutBack did not report success once and then failure")
	}
	for _, r := range rejected[:3] {
		if !check.Must(of.Drop(t.Context(), r.ID))(t) || check.Must(of.Drop(t.Context(), r.ID))(t) {
			t.Fatal("Drop did not report success once and then failure")
		}
	}
	drain()
	if got := check.Must(lost.(engine.Log).CatchUp(t.Context(), 2))(t); got != 1 {
		t.Fatalf("after PutBack: head %d", got)
	}
	if left := check.Must(of.Rejected(t.Context(), 0, 10))(t); len(left) != 0 {
		t.Fatalf("%+v", left)
	}
	// If check fails for an occurrence, the rest of its log stays, and other logs move.
	emit("log", "4", "unknown", "5")
	emit("other", "6")
	done := check.Must(of.Sequence(t.Context(), h, 10, checkOutgoing))(t)
	if done.Rejected != 0 {
		t.Fatalf("%+v", done)
	}
	heads(3, 2)
}
