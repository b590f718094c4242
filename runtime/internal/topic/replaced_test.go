package topic

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// CUR-7, REP-19: a reader of a log that another one has replaced stops. It passes nothing in the new log while it waits,
// does not wait again, and begins at the oldest entry of the new log, with a gap.
func TestCUR7ReplacedLog(t *testing.T) {
	c, typ := memcluster.New(), newType(t)
	st := c.Open()
	var appended []func([]store.Entry)
	topic, err := Open(typ, Options{Slots: 64, Open: func(f func([]store.Entry)) (store.EventLog, error) {
		appended = append(appended, f)
		return st.OpenLog(t.Context(), "e", store.LogOptions{Appended: f})
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		add(t, topic, incident{ID: fmt.Sprint(i), Tag: fmt.Sprint(i)})
	}
	wake := NewWake()
	waits, reads := topic.Reader(parse(t, typ, `{"tag":"0"}`), "waits", wake, 3), topic.Reader(parse(t, typ, `{}`), "reads", NewWake(), 3)
	if !waits.Park() {
		t.Fatal("not parked at the head")
	}
	if err := c.BeginEpoch(1); err != nil {
		t.Fatal(err)
	}
	if err := topic.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(wake) != 1 || reads.Park() {
		t.Errorf("who waits was woken %d times, and who reads may wait in the new log", len(wake))
	}
	for i := range 3 {
		add(t, topic, incident{ID: fmt.Sprint("new", i)})
	}
	appended[0]([]store.Entry{{EventID: "late", Position: 9, Data: []byte(`{}`)}})
	if head := topic.Head(); head != 5 {
		t.Errorf("after a notification of the old log the head is %d, want 5", head)
	}
	if passed, at := waits.Passed(), waits.Unpark(); passed != 3 || at != 3 {
		t.Errorf("passed %d, then at %d, want 3 both times", passed, at)
	}
	for r, want := range map[*Reader][]string{&waits: {"0"}, &reads: {"0", "1", "new0", "new1", "new2"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if p, err := r.Next(ctx, nil, Batch(PullBatch)); err != nil || len(p.Out) > 0 || !p.Gap || !p.More || r.Position() != 0 {
			t.Fatalf("%s: %d occurrences, gap %v, more %v, at %d, %v", r.id, len(p.Out), p.Gap, p.More, r.Position(), err)
		}
		if ids, p := pull(t, r); !slices.Equal(ids, want) || p.Gap || !r.Park() {
			t.Errorf("%s: %q, gap %v, want %q", r.id, ids, p.Gap, want)
		}
		r.Close()
	}
}
