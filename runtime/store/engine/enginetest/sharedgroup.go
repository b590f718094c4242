package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// newOutgoings returns occurrences with the given ids, with Once set.
func newOutgoings(ids ...string) (group []store.Outgoing) {
	for _, id := range ids {
		group = append(group, store.Outgoing(outgoing(id)))
	}
	return group
}

// entryIDs returns the ids of a log's entries, in order.
func entryIDs(t *testing.T, l store.EventLog) (ids []string) {
	t.Helper()
	head := check.Must(l.(engine.Log).CatchUp(t.Context(), 1<<40))(t)
	for at := store.Position(0); at < head; {
		b := check.Read(t, l, at, 1000)
		if len(b.Entries) == 0 {
			t.Fatalf("nothing after %d of %d", at, head)
		}
		for _, e := range b.Entries {
			if at++; e.Position != at {
				t.Fatalf("position %d after %d", e.Position, at-1)
			}
			ids = append(ids, e.EventID)
		}
	}
	return ids
}

func sharedGroup(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	_, err := a.AppendGroup(ctx, "log", newOutgoings("lost"))
	is(t, err, engine.ErrNoLog)
	var w witness
	l := check.OpenLog(t, b, "log", w.options()) // a has not opened it
	check.Once(t, l, check.Entry("stands"), 0, 1, true)

	group := newOutgoings("1", "2", "stands", "stands", "3")
	group[2].Entry.Data = []byte(`{}`)
	group[3].Above = 1
	group[3].Entry.Targets = []string{"sub_1"} // of another audience
	group = append(group, store.Outgoing(outgoing("generated")))
	group[5].Once = false
	done := check.Must(a.AppendGroup(ctx, "log", group))(t)
	is(t, done[2].Err, events.ErrIDReused)
	done[2].Err = nil
	check.Equal(t, done, []engine.Appended{{Position: 2, Fresh: true}, {Position: 3, Fresh: true}, {Position: 1}, {Position: 4, Fresh: true},
		{Position: 5, Fresh: true}, {Position: 6, Fresh: true}})
	check.Equal(t, entryIDs(t, l), []string{"stands", "1", "2", "stands", "3", "generated"})
	// A retry after a lost response does not repeat entries.
	again := newOutgoings("1", "2", "4", "generated")
	check.Equal(t, check.Must(a.AppendGroup(ctx, "log", again))(t),
		[]engine.Appended{{Position: 2}, {Position: 3}, {Position: 7, Fresh: true}, {Position: 6}})
	WaitUntil(t, "the other opener sees it", func() bool { return w.has("4") })
	check.Equal(t, w.ids(), []string{"stands", "1", "2", "stands", "3", "generated", "4"})

	// Store b has the log open and immediately sees the entries that it appends. Above excludes the earlier entry.
	group = newOutgoings("1", "5")
	group[0].Above = 2
	check.Equal(t, check.Must(b.AppendGroup(ctx, "log", group))(t), []engine.Appended{{Position: 8, Fresh: true}, {Position: 9, Fresh: true}})
	WaitUntil(t, "it sees them", func() bool { _, head := check.Bounds(t, l); return head == 9 })
	check.Equal(t, check.Must(b.AppendGroup(ctx, "log", nil))(t), []engine.Appended{})

	// This group has the maximum length and large payloads.
	group = group[:0]
	for i := range 512 {
		o := store.Outgoing(outgoing(fmt.Sprint("many", i)))
		o.Entry.Data = []byte(`{"x":"` + strings.Repeat("x", 1000) + `"}`)
		group = append(group, o)
	}
	for i, d := range check.Must(a.AppendGroup(ctx, "log", group))(t) {
		if d.Position != store.Position(10+i) || !d.Fresh || d.Err != nil {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	if ids := entryIDs(t, l); len(ids) != 9+512 || ids[9] != "many0" || ids[520] != "many511" {
		t.Fatalf("%d entries", len(ids))
	}
}

// Two relays append overlapping groups, as if one of them had been paused. Each id exists once, and the new entries of
// a group are consecutive.
func sharedGroups(t *testing.T, a, b engine.Shared) {
	l := check.OpenLog(t, b, "log", store.LogOptions{})
	var wg sync.WaitGroup
	const rounds, size = 8, 5
	var mu sync.Mutex
	fresh := map[string]int{}
	for i, s := range []engine.Shared{a, b} {
		for round := range rounds {
			wg.Go(func() {
				var group []store.Outgoing
				for n := range size {
					group = append(group, store.Outgoing(outgoing(fmt.Sprint(round, "-", n))))
				}
				done, err := s.AppendGroup(context.Background(), "log", group)
				if err != nil {
					t.Errorf("AppendGroup: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for n, d := range done {
					if d.Fresh {
						fresh[group[n].Entry.EventID]++
					}
					if n > 0 && d.Position != done[n-1].Position+1 {
						t.Errorf("round %d: %+v", round, done)
					}
				}
			})
			wg.Go(func() {
				if _, err := l.Append(context.Background(), check.Entry(fmt.Sprint("single", i, round))); err != nil {
					t.Errorf("Append: %v", err)
				}
			})
		}
	}
	wg.Wait()
	if ids := entryIDs(t, l); len(ids) != rounds*size+2*rounds || len(fresh) != rounds*size {
		t.Fatalf("%d entries, %d fresh: %v", len(ids), len(fresh), ids)
	}
	for id, n := range fresh {
		if n != 1 {
			t.Errorf("%s was appended %d times", id, n)
		}
	}
}

func sharedNow(t *testing.T, a, b engine.Shared) {
	before := check.Must(a.Now(t.Context()))(t)
	l := join(t, b, "r")
	after := check.Must(b.Now(t.Context()))(t)
	if before.IsZero() || l.Now.Before(before) || after.Before(l.Now) {
		t.Fatalf("the store's clock went from %v to %v, and a lease between has %v", before, after, l.Now)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Now(ctx)
	is(t, err, context.Canceled)
}

func sharedEpochs(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	logs := map[string][2]store.EventLog{}
	for _, name := range []string{"log", "other"} {
		logs[name] = [2]store.EventLog{check.OpenLog(t, a, name, store.LogOptions{}), check.OpenLog(t, b, name, store.LogOptions{})}
	}
	check.Add(t, logs["log"][0], 3)
	check.Must(a.PutState(ctx, engine.State{Key: "k", Value: []byte(`1`)}))(t)
	check.Must(a.Establish(ctx, "event", 1))(t)
	lease := join(t, b, "r")
	h := claimShard(t, b, lease, "event", 0)
	generation := a.Generation()

	ok(t, a.BeginEpochs(ctx))
	if now := a.Generation(); now <= generation {
		t.Fatalf("generation %d became %d", generation, now)
	}
	_, err := a.Renew(ctx, lease.Fence, ttl, nil, nil)
	is(t, err, engine.ErrFenced)
	_, err = b.Renew(ctx, lease.Fence, ttl, nil, nil)
	is(t, err, engine.ErrFenced)
	is(t, b.Owned(h).SaveProgress(ctx, []store.Update{{ID: "sub_1"}}), engine.ErrFenced)
	if c := cluster(t, b); len(c.Replicas) != 0 {
		t.Fatalf("%+v are there", c.Replicas)
	}
	if next := join(t, a, "r"); next.Fence <= lease.Fence {
		t.Fatalf("fence %d after %d", next.Fence, lease.Fence)
	}
	for name, two := range logs {
		for i, s := range []engine.Shared{a, b} {
			WaitUntil(t, "the earlier log has ended", func() bool {
				_, err := two[i].(engine.Log).CatchUp(ctx, 1)
				return errors.Is(err, engine.ErrNewEpoch)
			})
			_, err := two[i].Append(ctx, check.Entry("late"))
			is(t, err, engine.ErrNewEpoch)
			l := check.OpenLog(t, s, name, store.LogOptions{})
			if l.Epoch() == two[i].Epoch() {
				t.Errorf("%s goes on in epoch %d", name, l.Epoch())
			}
			two[i] = l
		}
		check.Equal(t, two[0].Epoch(), two[1].Epoch())
		logs[name] = two
	}
	check.Equal(t, entryIDs(t, logs["log"][1]), []string{"e1", "e2", "e3"})
	check.Add(t, logs["log"][0], 1)
	check.Equal(t, check.Must(b.AppendGroup(ctx, "log", newOutgoings("e2", "5")))(t), []engine.Appended{{Position: 2}, {Position: 5, Fresh: true}})
	if states := check.Must(b.States(ctx, "", "", 10))(t); len(states) != 1 {
		t.Errorf("states %v", states)
	}
	WaitUntil(t, "the other opener knows the generation", func() bool { return b.Generation() == a.Generation() })
	first := logs["log"][0].Epoch()
	ok(t, b.BeginEpochs(ctx))
	if again := check.OpenLog(t, b, "log", store.LogOptions{}).Epoch(); again == first {
		t.Errorf("epoch %d twice", again)
	}
}
