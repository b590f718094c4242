package clustertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// operatorTests are about what an operator sees and does of all processes by one of them.
var operatorTests = []test{
	{name: "SRV-8, REP-6: each process shows all of them, and what nobody does", run: clusterIsSeen},
	{name: "SRV-8, REP-13: who asked for an attempt is known wherever it is made, and a replay ends where it should", run: askedElsewhere},
	{name: "SRV-8, REP-13: two operators at two processes send what was given up once", run: sentOnce, long: true},
	{name: "SRV-8, REP-13: a task is shown and cancelled by any process, and one whose process has died is not running", run: tasksElsewhere, long: true},
	{name: "SRV-8, REP-13: a task ends all replays wherever they run, and those of a process that has died are not shown", run: replaysElsewhere, long: true},
}

func clusterIsSeen(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	_, outbox := f.watch.(engine.Outbox)
	every := 1 // duties: retention, and the outbox of a store that has one
	if outbox {
		every = 2
	}
	see := func(m *member) operator.Cluster {
		f.Helper()
		c, err := m.Admin().Cluster(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		return c
	}
	for _, m := range []*member{a, b} {
		f.wait("all is well", func() bool {
			c := see(m)
			shards, duties, outboxes := 0, 0, 0
			for _, r := range c.Replicas {
				if r.This != (r.Name == m.name) {
					return false
				}
				shards += r.Shards[f.typ.Info.Name]
				duties += r.Shards["/outbox"] + r.Shards["/retention"]
				if r.This {
					outboxes = r.Shards["/outbox"]
				}
			}
			return len(c.Replicas) == 2 && c.Leased && len(c.Unowned) == 0 && shards == 16 && duties == every && !c.HeardAt.IsZero() && (c.OutboxAge != nil) == (outboxes > 0)
		})
	}
	f.sink(b)
	f.wait("the one that died is gone, and nothing is left undone", func() bool {
		c := see(a)
		return len(c.Replicas) == 1 && len(c.Unowned) == 0 && c.Replicas[0].Shards[f.typ.Info.Name] == 16 && (c.OutboxAge != nil) == outbox
	})
}

func askedElsewhere(f *fleet) {
	f.start(2)
	id := f.members[0].subscribe("ann", params(hook(0), secretA, "")).ID
	admin := f.other(id).Admin()
	for i := range 4 {
		f.members[0].emit(incident{ID: fmt.Sprint(i + 1)})
	}
	delivered := func(n int) func() bool { return func() bool { return len(f.r.to(hook(0))) == n } }
	f.soon("all", delivered(4))
	f.soon("the attempts are stored", func() bool {
		made, err := admin.Attempts(f.Context(), id)
		return err == nil && len(made) == 4
	})
	ctx := operator.WithActor(f.Context(), "olga")
	if made, err := admin.SendAgain(ctx, id, "1"); err != nil || made.AskedBy != "olga" {
		f.Errorf("%+v %v", made, err)
	}
	at, err := admin.Locate(ctx, f.typ.Info.Name, operator.Point{Position: 2})
	if err != nil {
		f.Fatal(err)
	}
	if err := admin.Replay(operator.WithActor(f.Context(), "ivan"), id, at.Cursor, 3); err != nil {
		f.Fatal(err)
	}
	f.soon("the replay", delivered(7))
	f.idle()
	got := f.r.to(hook(0))
	slices.Sort(got)
	f.same("delivered", got, "1", "1", "2", "2", "3", "3", "4")
	var asked []string
	f.soon("who asked", func() bool {
		made, err := admin.Attempts(f.Context(), id)
		asked = nil
		for _, a := range made {
			asked = append(asked, a.EventID+a.AskedBy)
		}
		slices.Sort(asked)
		return err == nil && len(made) == 7
	})
	f.same("who asked", asked, "1", "1olga", "2", "2ivan", "3", "3ivan", "4")

	// One under way is shown here and ended from here, and there is nothing to end after that, nor before.
	none := func(when string) {
		f.Helper()
		if err := admin.EndReplay(ctx, id); !errors.Is(err, events.ErrNotFound) {
			f.Errorf("%s: %v", when, err)
		}
		f.wait(when+" there is none to end", func() bool { // what the owner tells of its replays is seconds old
			n, err := admin.Preview(ctx, operator.Bulk{Verb: operator.BulkEndReplay})
			if err != nil {
				f.Fatal(err)
			}
			return n == 0
		})
	}
	none("before")
	owner := f.owner(id).Admin()
	if err := admin.Pause(ctx, id); err != nil {
		f.Fatal(err)
	}
	replaying := func(want bool) func() bool {
		return func() bool {
			i, err := owner.Get(f.Context(), id)
			return err == nil && (i.Replay != nil) == want
		}
	}
	f.soon("the pause", func() bool {
		i, err := owner.Get(f.Context(), id)
		return err == nil && i.State == operator.StatePaused
	})
	if err := admin.Replay(ctx, id, at.Cursor, 0); err != nil {
		f.Fatal(err)
	}
	f.soon("another replay", replaying(true))
	f.wait("it is known here", func() bool {
		one, err := admin.Get(f.Context(), id)
		all, listErr := admin.List(f.Context(), "", 10)
		found, _, findErr := admin.Find(f.Context(), operator.Filter{}, "", 10)
		if err != nil || listErr != nil || findErr != nil || len(all) != 1 || len(found) != 1 {
			f.Fatal(all, found, err, listErr, findErr)
		}
		want := operator.Replay{AskedBy: "olga", Left: 3}
		return one.Replay != nil && *one.Replay == want && all[0].Replay != nil && found[0].Replay != nil && *found[0].Replay == want
	})
	if n, err := admin.Preview(ctx, operator.Bulk{Verb: operator.BulkEndReplay}); n != 1 || err != nil {
		f.Errorf("%d to end, %v", n, err)
	}
	if err := admin.EndReplay(ctx, id); err != nil {
		f.Fatal(err)
	}
	if !replaying(false)() {
		f.Error("it has not ended, and was said to have")
	}
	f.wait("its end is known here", func() bool {
		i, err := admin.Get(f.Context(), id)
		if err != nil {
			f.Fatal(err)
		}
		return i.Replay == nil
	})
	none("after the end")
	if err := admin.Unpause(ctx, id); err != nil {
		f.Fatal(err)
	}
	f.idle()
	if got := f.r.to(hook(0)); len(got) != 7 {
		f.Errorf("after the end of a replay: %q", got)
	}
}

func sentOnce(f *fleet) {
	f.start(2)
	var ids []string
	for i := range 6 {
		ids = append(ids, f.members[i%2].subscribe("ann", params(hook(i), secretA, "")).ID)
	}
	began := time.Now()
	f.r.on(refuse)
	for i := range 3 {
		f.members[0].emit(incident{ID: fmt.Sprint(i + 1)})
	}
	time.Sleep(20 * time.Minute) // all are given up
	f.r.on(nil)
	before := map[string]int{}
	for i := range ids {
		before[hook(i)] = len(f.r.to(hook(i)))
	}
	bulk := operator.Bulk{Verb: operator.BulkSend, Since: began.Add(-time.Minute)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := operator.Task{}
	for i, m := range f.members {
		wg.Go(func() {
			bulk := bulk
			bulk.PerSecond = float64(50 * (i + 1)) // one overtakes the other
			task, err := m.Admin().Begin(operator.WithActor(f.Context(), fmt.Sprint("operator ", i)), bulk)
			if err != nil || task.Total == 0 || task.Total > 18 { // the other one may have begun to send
				f.Errorf("%+v %v", task, err)
				return
			}
			f.wait("the task ends", func() bool {
				task, err = m.Admin().Task(f.Context(), task.ID)
				return err != nil || !task.EndedAt.IsZero()
			})
			mu.Lock()
			defer mu.Unlock()
			sum.Done += task.Done
			if task.Failed > 0 || err != nil || !strings.HasPrefix(task.Actor, "operator ") {
				f.Errorf("%+v %v", task, err)
			}
		})
	}
	wg.Wait()
	f.idle()
	for i := range ids {
		got := f.r.to(hook(i))[before[hook(i)]:]
		slices.Sort(got)
		f.same("sent again to "+hook(i), got, "1", "2", "3")
	}
	if sum.Done < 18 {
		f.Errorf("%d were done by both", sum.Done)
	}
}

func tasksElsewhere(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	for i := range 10 {
		f.members[i%2].subscribe("ann", params(hook(i), secretA, ""))
	}
	ctx := operator.WithActor(f.Context(), "olga")
	begin := func(m *member, rate float64) operator.Task {
		f.Helper()
		task, err := m.Admin().Begin(ctx, operator.Bulk{Verb: operator.BulkPause, PerSecond: rate, Filter: operator.Filter{Principal: "ann"}})
		if err != nil {
			f.Fatal(err)
		}
		return task
	}
	sees := func(m *member, id string) operator.Task {
		f.Helper()
		task, err := m.Admin().Task(f.Context(), id)
		if err != nil {
			f.Fatal(err)
		}
		all, err := m.Admin().Tasks(f.Context())
		if err != nil || slices.IndexFunc(all, func(t operator.Task) bool { return t.ID == id && t.Done >= task.Done }) < 0 { // it goes on meanwhile
			f.Errorf("it is not in the list: %+v %v", all, err)
		}
		return task
	}
	slow := begin(a, 0.2)
	time.Sleep(12 * time.Second) // three are paused
	if now := sees(b, slow.ID); now.Actor != "olga" || now.Total != 10 || now.Done < 2 || now.Done > 3 || !now.EndedAt.IsZero() || now.Filter.Principal != "ann" {
		f.Errorf("under way: %+v", now)
	}
	if err := b.Admin().Cancel(f.Context(), slow.ID); err != nil {
		f.Fatal(err)
	}
	if now := sees(b, slow.ID); !now.Cancelled {
		f.Errorf("cancelled: %+v", now)
	}
	f.wait("it ends", func() bool { return !sees(b, slow.ID).EndedAt.IsZero() })
	done := sees(b, slow.ID)
	if own := sees(a, slow.ID); !own.Cancelled || own.Done != done.Done || own.Done > 3 {
		f.Errorf("%+v, elsewhere %+v", own, done)
	}
	time.Sleep(time.Minute)
	if again := sees(b, slow.ID); again.Done != done.Done || again.Error != "" {
		f.Errorf("it goes on: %+v", again)
	}
	for _, m := range []*member{a, b} { // it has ended
		if err := m.Admin().Cancel(f.Context(), slow.ID); err != nil {
			f.Error(err)
		}
		if err := m.Admin().Cancel(f.Context(), "task_x"); !errors.Is(err, events.ErrNotFound) {
			f.Errorf("an unknown one: %v", err)
		}
	}

	dying := begin(a, 0.2)
	time.Sleep(5 * time.Second)
	f.sink(a)
	time.Sleep(time.Minute)
	if now := sees(b, dying.ID); now.EndedAt.IsZero() || now.Error == "" || now.Done >= now.Total {
		f.Errorf("its process has died: %+v", now)
	}
	// It is begun again, and what is done is not done twice.
	rest := begin(b, 100)
	f.wait("the rest", func() bool { return !sees(b, rest.ID).EndedAt.IsZero() })
	if now := sees(b, rest.ID); now.Total >= 10 || now.Done+now.Skipped != now.Total || now.Failed != 0 {
		f.Errorf("begun again: %+v", now)
	}
	for range 120 { // those of long ago are forgotten
		last := begin(b, 1000)
		f.wait("it ends", func() bool { return !sees(b, last.ID).EndedAt.IsZero() })
		time.Sleep(time.Millisecond)
	}
	if all, err := b.Admin().Tasks(f.Context()); err != nil || len(all) > 100 {
		f.Errorf("%d are kept, %v", len(all), err)
	}
}

func replaysElsewhere(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	const n = 60
	for i := range n {
		f.members[i%2].subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	a.emit(incident{ID: "1"})
	f.wait("all", func() bool {
		for i := range n {
			if len(f.r.to(hook(i))) == 0 {
				return false
			}
		}
		return true
	})
	began := time.Now().Add(-time.Hour)
	all := func(m *member, bulk operator.Bulk) operator.Task {
		f.Helper()
		bulk.PerSecond = 1000
		task, err := m.Admin().Begin(operator.WithActor(f.Context(), "olga"), bulk)
		if err != nil {
			f.Fatal(err)
		}
		f.wait(string(bulk.Verb), func() bool {
			if task, err = m.Admin().Task(f.Context(), task.ID); err != nil {
				f.Fatal(err)
			}
			return !task.EndedAt.IsZero()
		})
		if task.Failed > 0 || task.Error != "" {
			f.Errorf("%+v", task)
		}
		return task
	}
	all(a, operator.Bulk{Verb: operator.BulkPause}) // so that replays stand
	replay := operator.Bulk{Verb: operator.BulkReplay, Since: began}
	if done := all(a, replay); done.Done != n {
		f.Errorf("replayed: %+v", done)
	}
	toEnd := func(m *member) int {
		f.Helper()
		n, err := m.Admin().Preview(f.Context(), operator.Bulk{Verb: operator.BulkEndReplay})
		if err != nil {
			f.Fatal(err)
		}
		return n
	}
	f.wait("all are under way", func() bool { return toEnd(a) == n && toEnd(b) == n })
	if done := all(b, operator.Bulk{Verb: operator.BulkEndReplay}); done.Done != n {
		f.Errorf("ended: %+v", done)
	}
	f.wait("none is under way", func() bool { return toEnd(a) == 0 && toEnd(b) == 0 })

	all(a, replay)
	f.wait("all are under way again", func() bool { return toEnd(b) == n })
	f.sink(a)
	time.Sleep(2 * time.Minute)
	if got := toEnd(b); got == 0 || got >= n { // those of b go on
		f.Errorf("%d are shown of a process that has died", got)
	}
	all(b, operator.Bulk{Verb: operator.BulkEndReplay})
	stored := func(want int) func() bool {
		return func() bool {
			states, err := f.watch.States(f.Context(), "replays/", "", 10)
			if err != nil {
				f.Fatal(err)
			}
			return len(states) == want
		}
	}
	f.wait("b tells of nothing", stored(1))
	all(b, replay)
	f.wait("b tells again, and nothing is kept of a", func() bool { return stored(1)() && toEnd(b) > 0 })
	all(b, operator.Bulk{Verb: operator.BulkEndReplay})
	f.wait("nothing is kept", stored(0))
}
