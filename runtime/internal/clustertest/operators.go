package clustertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// operatorTests are about what an operator sees and does of all processes by one of them.
var operatorTests = []test{
	{name: "SRV-8, REP-6: each process shows all of them, and what nobody does", run: clusterIsSeen},
	{name: "SRV-8, REP-13: who asked for an attempt is known wherever it is made, and a replay ends where it should", run: askedElsewhere},
	{name: "SRV-8, REP-13: two operators at two processes send what was given up once", run: sentOnce, long: true},
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
			if err != nil || task.Total != 18 {
				f.Errorf("%+v %v", task, err)
				return
			}
			f.wait("the task ends", func() bool {
				task, err = m.Admin().Task(task.ID)
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
