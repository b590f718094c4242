package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// SRV-8: all subscriptions to a host are paused, and go on, by one action that counts before and while it goes.
func TestSRV8Bulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e := b.event("e", true)
		ctx := t.Context()
		ann := b.at("ann", "/a")
		b.at("bob", "/b")
		b.at("carl", "/b")
		must(t, b.Pause(ctx, ann))
		host := operator.Filter{Host: "Receiver.test"}
		if n, err := b.Preview(ctx, operator.Bulk{Verb: operator.BulkPause, Filter: host}); n != 2 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		if done := b.taken(operator.BulkPause, host); done.Total != 2 || done.Done != 2 || done.Failed+done.Skipped != 0 || done.Error != "" || done.Actor != "olga" ||
			done.BegunAt.IsZero() || done.EndedAt.IsZero() || done.Cancelled || done.PerSecond != usualRate {
			t.Errorf("%+v", done)
		}
		b.finds(operator.Filter{State: operator.StatePaused}, "ann", "bob", "carl")
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		r.want(t, "paused")
		if done := b.taken(operator.BulkUnpause, operator.Filter{URL: "/b"}); done.Total != 2 || done.Done != 2 {
			t.Errorf("%+v", done)
		}
		settle(time.Minute)
		r.want(t, "unpaused", "1", "1")
		if done := b.taken(operator.BulkResume, host); done.Total != 0 || done.Done != 0 || done.EndedAt.IsZero() {
			t.Errorf("%+v", done)
		}
		all := b.allTasks()
		if len(all) != 3 || all[0].Verb != operator.BulkResume || all[2].Verb != operator.BulkPause {
			t.Errorf("%+v", all)
		}
		missing(t, "a task", errorOf(b.Task(t.Context(), "task_x")))
		missing(t, "cancelling", b.Cancel(t.Context(), "task_x"))
		must(t, b.Cancel(t.Context(), all[0].ID))
		if after, err := b.Task(t.Context(), all[0].ID); err != nil || after.Cancelled {
			t.Errorf("cancelled after its end: %+v %v", after, err)
		}
		for _, bad := range []operator.Bulk{{Verb: "end"}, {}, {Verb: operator.BulkPause, PerSecond: -1}, {Verb: operator.BulkPause, PerSecond: 1001},
			{Verb: operator.BulkPause, PerSecond: 1e-300}} {
			if _, err := b.Begin(operator.WithActor(ctx, "olga"), bad); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("%+v: %v", bad, err)
			}
			if _, err := b.Preview(ctx, bad); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// SRV-8: a bulk action keeps to its rate, ends where it is cancelled, and several run at once, but not any number.
func TestSRV8BulkCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{r: receive(t)})
		b.event("e", true)
		ctx := t.Context()
		for i := range 40 {
			b.at(fmt.Sprint(i), "/a")
		}
		slow := operator.Bulk{Verb: operator.BulkPause, PerSecond: 0.5}
		began, err := b.Begin(operator.WithActor(ctx, "olga"), slow)
		must(t, err)
		settle(7 * time.Second)
		if now, err := b.Task(t.Context(), began.ID); err != nil || now.Done != 4 || now.Total != 40 || !now.EndedAt.IsZero() {
			t.Errorf("%+v %v", now, err)
		}
		must(t, b.Cancel(t.Context(), began.ID))
		b.running.Wait()
		if now, err := b.Task(t.Context(), began.ID); err != nil || now.Done != 4 || !now.Cancelled || now.EndedAt.IsZero() || now.Error != "" {
			t.Errorf("%+v %v", now, err)
		}
		if n, err := b.Preview(ctx, slow); n != 36 || err != nil {
			t.Errorf("%d are left, %v", n, err)
		}
		for range maxRunning {
			_, err := b.Begin(operator.WithActor(ctx, "olga"), operator.Bulk{Verb: operator.BulkPause, PerSecond: minRate})
			must(t, err)
		}
		if _, err := b.Begin(operator.WithActor(ctx, "olga"), slow); !errors.Is(err, operator.ErrBusy) {
			t.Error(err)
		}
		close(b.closing)
		b.running.Wait()
		for _, now := range b.allTasks() {
			if !now.Cancelled || now.EndedAt.IsZero() {
				t.Errorf("%+v", now)
			}
		}
	})
}

// SRV-8: two operators who do the same at once leave nothing out and meet no error, and what ends meanwhile is passed over.
// The second one counts what the first has left.
func TestSRV8BulkTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{r: receive(t)})
		b.event("e", true)
		for i := range 20 {
			b.at(fmt.Sprint(i), "/a")
		}
		var ids [2]string
		for i := range ids {
			began, err := b.Begin(operator.WithActor(t.Context(), "olga"), operator.Bulk{Verb: operator.BulkPause, PerSecond: 10})
			must(t, err)
			ids[i] = began.ID
		}
		ends, _, err := b.Find(t.Context(), operator.Filter{}, "", 100)
		must(t, err)
		must(t, b.End(t.Context(), ends[19].ID, nil))
		b.running.Wait()
		for _, id := range ids {
			if now, err := b.Task(t.Context(), id); err != nil || now.Total < 19 || now.Total > 20 || now.Done > 19 || now.Skipped > 1 || now.Failed != 0 || now.Error != "" {
				t.Errorf("%+v %v", now, err)
			}
		}
		if n, err := b.Preview(t.Context(), operator.Bulk{Verb: operator.BulkPause}); n != 0 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		for range keptTasks + 5 {
			b.taken(operator.BulkResume, operator.Filter{})
		}
		if all := b.allTasks(); len(all) != keptTasks {
			t.Errorf("%d tasks are kept", len(all))
		}
	})
}

// SRV-8: a store that fails in the middle ends a bulk action, which says so without the store's words.
func TestSRV8BulkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFailingStore()
		b := newBed(t, setup{r: receive(t), store: st})
		b.event("e", true)
		for i := range 30 {
			b.at(fmt.Sprint(i), "/a")
		}
		began, err := b.Begin(operator.WithActor(t.Context(), "olga"), operator.Bulk{Verb: operator.BulkPause, PerSecond: 1})
		must(t, err)
		settle(2500 * time.Millisecond)
		st.fail(errTest)
		b.running.Wait()
		now, err := b.Task(t.Context(), began.ID)
		must(t, err)
		if now.Done != 3 || now.Failed != maxInARow || now.Total != 30 || !strings.Contains(now.Error, "stopped after 20 failures") || strings.Contains(now.Error, errTest.Error()) {
			t.Errorf("%+v", now)
		}
		if !strings.Contains(b.log(), errTest.Error()) {
			t.Error("it is not logged")
		}
		st.fail(nil)
		if done := b.taken(operator.BulkPause, operator.Filter{}); done.Done != 27 || done.Error != "" {
			t.Errorf("again: %+v", done)
		}
	})
}

func (b *bed) allTasks() []operator.Task {
	b.t.Helper()
	all, err := b.Tasks(b.t.Context())
	must(b.t, err)
	return all
}
