package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

const ttl = time.Minute

func join(t *testing.T, s engine.Shared, name string) engine.Lease {
	t.Helper()
	l, err := s.Join(t.Context(), name, ttl, map[string]string{"event": "f1"}, json.RawMessage(`{"n":0}`))
	if err != nil {
		t.Fatal(err)
	}
	if l.Fence == 0 || l.Now.IsZero() {
		t.Fatalf("lease %+v", l)
	}
	return l
}

func cluster(t *testing.T, s engine.Shared) engine.Cluster {
	t.Helper()
	c, err := s.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sharedLeases(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	var last uint64
	for i, s := range []engine.Shared{a, b, a} {
		l := join(t, s, fmt.Sprint("r", i))
		if l.Fence <= last {
			t.Fatalf("fence %d after %d", l.Fence, last)
		}
		last = l.Fence
	}
	c := cluster(t, b)
	if len(c.Replicas) != 3 || c.Replicas[2].Name != "r2" || c.Replicas[2].Types["event"] != "f1" {
		t.Fatalf("cluster %+v", c)
	}
	for _, report := range []string{`{"n":1}`, `{"n":2}`} {
		if _, err := b.Renew(ctx, last, ttl, map[string]string{"event": "f2"}, json.RawMessage(report)); err != nil {
			t.Fatal(err)
		}
		if c = cluster(t, a); c.Replicas[2].Types["event"] != "f2" || string(c.Replicas[2].Report) != report || string(c.Replicas[1].Report) != `{"n":0}` {
			t.Fatalf("replicas after a renewal: %+v", c.Replicas)
		}
	}
	ok(t, a.Leave(ctx, last))
	ok(t, a.Leave(ctx, last))
	_, err := a.Renew(ctx, last, ttl, nil, nil)
	is(t, err, engine.ErrFenced)
	short := check.Must(a.Join(ctx, "short", 10*time.Millisecond, nil, nil))(t)
	WaitUntil(t, "the lease expires", func() bool {
		return !slices.ContainsFunc(cluster(t, b).Replicas, func(r engine.Replica) bool { return r.Fence == short.Fence })
	})
	_, err = a.Renew(ctx, short.Fence, ttl, nil, nil)
	is(t, err, engine.ErrFenced)
	_, err = a.Claim(ctx, short.Fence, nil)
	is(t, err, engine.ErrFenced)
}

// No process has read the cluster since the lease expired, so only the store's clock ends the lease.
func sharedExpired(t *testing.T, a, _ engine.Shared) {
	l := check.Must(a.Join(t.Context(), "short", 10*time.Millisecond, nil, nil))(t)
	time.Sleep(30 * time.Millisecond) // by the store's clock, which no bubble advances
	_, err := a.Renew(t.Context(), l.Fence, ttl, nil, nil)
	is(t, err, engine.ErrFenced)
}

func sharedEstablish(t *testing.T, a, b engine.Shared) {
	var wg sync.WaitGroup
	var got [2]int
	for i, s := range []engine.Shared{a, b} {
		wg.Go(func() { got[i], _ = s.Establish(t.Context(), "event", 3+i) })
	}
	wg.Wait()
	if got[0] != got[1] || got[0] < 3 || got[0] > 4 {
		t.Fatalf("established %v", got)
	}
	if n := check.Must(a.Establish(t.Context(), "event", 16))(t); n != got[0] {
		t.Fatalf("%d shards became %d", got[0], n)
	}
	if n := check.Must(b.Establish(t.Context(), engine.OutboxTopic, 1))(t); n != 1 {
		t.Fatalf("%d", n)
	}
	c := cluster(t, a)
	want := []engine.ShardFence{{Shard: engine.Shard{Topic: engine.OutboxTopic}}}
	for i := range got[0] {
		want = append(want, engine.ShardFence{Shard: engine.Shard{Topic: "event", Number: i}})
	}
	check.Equal(t, c.Shards, want)
	if _, err := a.Establish(t.Context(), "none", 0); err == nil {
		t.Fatal("a topic without shards was established")
	}
}

func sharedClaim(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	check.Must(a.Establish(ctx, "event", 4))(t)
	leases := map[uint64]engine.Shared{}
	var fences []uint64
	for i := range 6 {
		s := []engine.Shared{a, b}[i%2]
		l := join(t, s, fmt.Sprint("r", i))
		leases[l.Fence] = s
		fences = append(fences, l.Fence)
	}
	free := cluster(t, a).Shards
	var mu sync.Mutex
	owners := map[engine.Shard]uint64{}
	contest := func(free []engine.ShardFence) {
		var wg sync.WaitGroup
		for fence, s := range leases {
			wg.Go(func() {
				won, err := s.Claim(ctx, fence, free)
				if err != nil {
					t.Errorf("Claim: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, shard := range won {
					if other := owners[shard]; other != 0 {
						t.Errorf("%v was won by %d and %d", shard, other, fence)
					}
					owners[shard] = fence
				}
			})
		}
		wg.Wait()
	}
	contest(free)
	c := cluster(t, b)
	for _, h := range c.Shards {
		if h.Fence == 0 || owners[h.Shard] != h.Fence {
			t.Fatalf("%v is held by %d, won by %d", h.Shard, h.Fence, owners[h.Shard])
		}
	}
	contest(c.Shards) // of live owners: contest reports a shard that is won twice
	first := c.Shards[0]
	is(t, b.Release(ctx, engine.ShardFence{Shard: first.Shard, Fence: first.Fence + 100}), engine.ErrFenced)
	ok(t, b.Release(ctx, first))
	is(t, b.Release(ctx, first), engine.ErrFenced)
	other := fences[0]
	if other == first.Fence {
		other = fences[1]
	}
	if won := check.Must(leases[other].Claim(ctx, other, []engine.ShardFence{first}))(t); len(won) != 0 {
		t.Fatal("a claim with another fence won")
	}
	free = []engine.ShardFence{{Shard: first.Shard}}
	if won := check.Must(leases[other].Claim(ctx, other, free))(t); len(won) != 1 {
		t.Fatal("a released shard cannot be claimed")
	}
	ok(t, a.Leave(ctx, other))
	held := engine.ShardFence{Shard: first.Shard, Fence: other}
	rest := fences[2]
	if won := check.Must(leases[rest].Claim(ctx, rest, []engine.ShardFence{held}))(t); len(won) != 1 {
		t.Fatal("the shard of an ended lease cannot be claimed")
	}
}

// claimShard claims a shard of the topic for the lease.
func claimShard(t *testing.T, s engine.Shared, lease engine.Lease, topic string, number int) engine.ShardFence {
	t.Helper()
	for _, h := range cluster(t, s).Shards {
		if h.Shard == (engine.Shard{Topic: topic, Number: number}) {
			if won := check.Must(s.Claim(t.Context(), lease.Fence, []engine.ShardFence{h}))(t); len(won) == 1 {
				return engine.ShardFence{Shard: h.Shard, Fence: lease.Fence}
			}
		}
	}
	t.Fatalf("cannot own %s#%d", topic, number)
	return engine.ShardFence{}
}

// subscriptionInShard returns a subscription that belongs to the given shard of its event.
func subscriptionInShard(id string, shard int) store.Subscription {
	s := check.Subscription(id)
	s.Shard, s.Schema, s.Progress, s.Health, s.Report = shard, "f1", store.Progress{Epoch: 1, Base: 7, Open: true}, store.Health{}, nil
	return s
}

// settledUpdate returns an update that settles all positions up to base.
func settledUpdate(s store.Subscription, base store.Position) store.Update {
	return store.Update{ID: s.ID, Generation: s.Generation, Progress: store.Progress{Epoch: 1, Base: base}}
}

func sharedFences(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	sub := check.Put(t, a, subscriptionInShard("sub_1", 1))
	check.Must(a.Establish(ctx, sub.Event, 2))(t)
	check.Must(a.Establish(ctx, engine.RetentionTopic, 1))(t)
	old := join(t, a, "old")
	h, keeper := claimShard(t, a, old, sub.Event, 1), claimShard(t, a, old, engine.RetentionTopic, 0)
	owner := a.Owned(h)
	ok(t, owner.SaveProgress(ctx, []store.Update{settledUpdate(sub, 8)}))
	ok(t, owner.SaveMark(ctx, sub.Event, 8))
	sub.Truncated, sub.Schema = !sub.Truncated, "f2"
	sub.Revision = check.Must(owner.PutSubscription(ctx, sub))(t)
	check.Must(a.Retain(ctx, keeper, 10))(t)
	page := check.Must(owner.Subscriptions(ctx, "", 10))(t)
	if len(page) != 1 || page[0].Progress.Base != 8 || page[0].Shard != 1 || page[0].Schema != "f2" {
		t.Fatalf("the shard holds %+v", page)
	}
	// An owner cannot write a record of another shard.
	other := check.Put(t, a, subscriptionInShard("sub_2", 0))
	ok(t, owner.SaveProgress(ctx, []store.Update{settledUpdate(other, 99)}))
	ok(t, owner.DeleteSubscription(ctx, other.ID, other.Generation))
	_, err := owner.PutSubscription(ctx, other)
	is(t, err, engine.ErrFenced)
	check.Equal(t, check.Get(t, b, other.ID), other)

	ok(t, a.Leave(ctx, old.Fence))
	heir := join(t, b, "heir")
	heirs := claimShard(t, b, heir, sub.Event, 1)
	claimShard(t, b, heir, engine.RetentionTopic, 0)
	before := check.Get(t, b, sub.ID)
	is(t, owner.SaveProgress(ctx, []store.Update{settledUpdate(sub, 9)}), engine.ErrFenced)
	is(t, owner.SaveMark(ctx, sub.Event, 99), engine.ErrFenced)
	is(t, owner.DeleteSubscription(ctx, sub.ID, sub.Generation), engine.ErrFenced)
	_, err = owner.PutSubscription(ctx, before)
	is(t, err, engine.ErrFenced)
	_, err = a.Retain(ctx, keeper, 10)
	is(t, err, engine.ErrFenced)
	check.Equal(t, check.Get(t, b, sub.ID), before)
	if mark, err := b.Owned(heirs).Mark(ctx, sub.Event); mark != 8 || err != nil {
		t.Fatalf("Mark = %d, %v", mark, err)
	}
}

func sharedClaimBetween(t *testing.T, a, b engine.Shared, slow func()) {
	ctx := t.Context()
	sub := check.Put(t, a, subscriptionInShard("sub_1", 0))
	check.Must(a.Establish(ctx, sub.Event, 1))(t)
	slow()
	owners := []engine.Shared{a, b}
	lease := join(t, a, "r0")
	h := claimShard(t, a, lease, sub.Event, 0)
	for round := range 5 {
		now, next := owners[round%2], owners[(round+1)%2]
		owner := now.Owned(h)
		var wg sync.WaitGroup
		written := make(chan store.Position, 1)
		wg.Go(func() { // writes until it is fenced
			for base := check.Get(t, now, sub.ID).Progress.Base + 1; ; base++ {
				err := owner.SaveProgress(ctx, []store.Update{settledUpdate(sub, base)})
				if errors.Is(err, engine.ErrFenced) {
					written <- base - 1
					return
				}
				if err != nil {
					t.Errorf("SaveProgress: %v", err)
					written <- base - 1
					return
				}
			}
		})
		time.Sleep(time.Duration(round) * 7 * time.Millisecond)
		ok(t, now.Leave(ctx, lease.Fence)) // as after a stall: the old owner does not know
		lease = join(t, next, fmt.Sprint("r", round+1))
		h = claimShard(t, next, lease, sub.Event, 0)
		after := check.Get(t, next, sub.ID).Progress.Base
		last := <-written
		wg.Wait()
		if again := check.Get(t, next, sub.ID).Progress.Base; again != after || last != after {
			t.Fatalf("round %d: the record was at %d when it was claimed, is at %d now, and its old owner wrote up to %d", round, after, again, last)
		}
	}
}

func sharedMarks(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	x, y := check.Put(t, a, subscriptionInShard("sub_x", 0)), check.Put(t, b, subscriptionInShard("sub_y", 1))
	check.Must(a.Establish(ctx, x.Event, 2))(t)
	la, lb := join(t, a, "a"), join(t, b, "b")
	ha, hb := claimShard(t, a, la, x.Event, 0), claimShard(t, b, lb, x.Event, 1)
	expect := func(o engine.Owned, log string, want store.Position, records ...store.Subscription) {
		t.Helper()
		if mark, err := o.Mark(ctx, log); mark != want || err != nil {
			t.Errorf("the mark of %s is %d (%v), want %d", log, mark, err, want)
		}
		check.Equal(t, check.Must(o.Subscriptions(ctx, "", 10))(t), records)
	}
	// A record is open before its first delivery.
	expect(a.Owned(ha), x.Event, 0, x)
	expect(b.Owned(hb), x.Event, 0, y)
	closed := settledUpdate(x, 20)
	x.Progress = closed.Progress
	ok(t, a.Owned(ha).SaveProgress(ctx, []store.Update{closed}))
	ok(t, a.Owned(ha).SaveMark(ctx, x.Event, 20))
	expect(a.Owned(ha), x.Event, 20, x)
	expect(b.Owned(hb), x.Event, 0, y)
	ok(t, b.Owned(hb).SaveMark(ctx, x.Event, 12))
	ok(t, b.Owned(hb).SaveMark(ctx, x.Event, 11)) // late: the larger position wins
	ok(t, b.Owned(hb).SaveMark(ctx, "another log", 3))
	expect(b.Owned(hb), x.Event, 12, y)
	expect(b.Owned(hb), "another log", 3, y)
	open := settledUpdate(x, 22)
	open.Progress.Open = true
	x.Progress = open.Progress
	ok(t, a.Owned(ha).SaveProgress(ctx, []store.Update{open}))
	ok(t, a.Owned(ha).SaveMark(ctx, x.Event, 25))
	// A third replica takes over both shards.
	ok(t, a.Leave(ctx, la.Fence))
	ok(t, b.Leave(ctx, lb.Fence))
	lc := join(t, b, "c")
	expect(b.Owned(claimShard(t, b, lc, x.Event, 0)), x.Event, 25, x)
	expect(b.Owned(claimShard(t, b, lc, x.Event, 1)), x.Event, 12, y)
	// A record created by another replica is open, even though the shard's mark is above its base.
	z := check.Put(t, a, subscriptionInShard("sub_z", 0))
	expect(b.Owned(claimShard(t, b, joinAfter(t, b, lc), x.Event, 0)), x.Event, 25, x, z)
}

func joinAfter(t *testing.T, s engine.Shared, old engine.Lease) engine.Lease {
	t.Helper()
	ok(t, s.Leave(t.Context(), old.Fence))
	return join(t, s, "next")
}
