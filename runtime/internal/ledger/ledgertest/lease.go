package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
)

var leaseTests = []test{
	{"REP-6: a lease that has expired is over for good", testLease},
	{"REP-16: a renewal replaces the event types", testRenew},
	{"An exclusive store has leases that do not expire", testExclusiveLease},
	{"REP-6: the number of shards is fixed when it is first stored", testEstablish},
	{"REP-6: one of many claims of a shard wins", testClaim},
	{"REP-7: a lease that ends at any call of a claim wins nothing", testClaimOfEnded},
	{"A release frees the hold that it names, and no later one", testRelease},
	{"REP-19: a new life ends leases and holds", testNewLife},
}

func member(name string) ledger.Member {
	return ledger.Member{Name: name, Types: map[string]string{topic: "f1"}, TTL: ttl}
}

// names returns the names of the members of a cluster.
func names(t *testing.T, p *process) (names []string) {
	t.Helper()
	for _, m := range ok(p.Cluster(t.Context()))(t).Members {
		names = append(names, m.Name)
	}
	return names
}

// holdOf returns how a shard is held.
func holdOf(t *testing.T, p *process, s ledger.Shard) ledger.Hold {
	t.Helper()
	for _, h := range ok(p.Cluster(t.Context()))(t).Shards {
		if h.Shard == s {
			return h
		}
	}
	t.Fatalf("the shard %v does not exist", s)
	return ledger.Hold{}
}

func testLease(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	if a.Engine().Exclusive() {
		t.Skip("its leases do not expire")
	}
	free := holdOf(t, a, shard)
	held := ok(a.lease.Claim(t.Context(), free))(t)
	if len(held) != 1 || !slices.Equal(names(t, b), []string{"p", "p"}) || holdOf(t, b, shard).Lease != a.lease.ID() {
		t.Fatalf("held %v, cluster %v", held, ok(b.Cluster(t.Context()))(t))
	}
	b.faults.Skew(2 * ttl) // by its clock all leases have expired
	_, err := b.lease.Renew(t.Context(), ttl, nil)
	is(t, err, ledger.ErrFenced) // nobody has ended it, but its time is over
	b.lease = ok(b.Join(t.Context(), member("late")))(t)
	if got := names(t, b); !slices.Equal(got, []string{"late"}) {
		t.Errorf("members %v", got)
	}
	_, err = a.lease.Renew(t.Context(), ttl, nil)
	is(t, err, ledger.ErrFenced)
	_, err = a.lease.Claim(t.Context(), ledger.Hold{Shard: ledger.Shard{Topic: topic}})
	is(t, err, ledger.ErrFenced)
	_, err = a.lease.Claim(t.Context())
	is(t, err, ledger.ErrFenced)
	must(t, a.lease.Leave(t.Context()))
	if won := ok(b.lease.Claim(t.Context(), holdOf(t, b, shard)))(t); len(won) != 1 {
		t.Error("the shard is not free")
	}
	is(t, a.Release(t.Context(), held[0]), ledger.ErrFenced)
	_, err = b.Join(t.Context(), ledger.Member{ID: b.lease.ID(), TTL: ttl})
	if err == nil {
		t.Error("an ID was used twice")
	}
}

func testRenew(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	mark := ok(b.Engine().Changes(t.Context(), "", 0))(t).Next
	before := b.now(t)
	for i, types := range []map[string]string{{topic: "f2"}, {topic: "f2"}} {
		now := ok(a.lease.Renew(t.Context(), time.Hour, types))(t)
		types[topic] = "changed afterwards"
		if now.Before(before) {
			t.Errorf("renewed at %v, before %v", now, before)
		}
		told := ok(b.Engine().Changes(t.Context(), mark, 0))(t)
		if mark = told.Next; len(told.Names) != 1-i || i == 0 && ledger.ParseChange(told.Names[0]).Kind != ledger.MembersChanged {
			t.Errorf("renewal %d tells %q", i, told.Names)
		}
	}
	m := ok(b.Cluster(t.Context()))(t).Members[0]
	if m.ID != a.lease.ID() || m.Types[topic] != "f2" || m.TTL != time.Hour || !m.Joined.Equal(a.lease.Joined()) || m.Renewed.Before(m.Joined) {
		t.Errorf("%+v", m)
	}
	// The lease of a member can be renewed and ended by others.
	ok(b.Lease(m).Renew(t.Context(), ttl, m.Types))(t)
	ok(a.lease.Renew(t.Context(), ttl, m.Types))(t)
	must(t, b.Lease(m).Leave(t.Context()))
	_, err := a.lease.Renew(t.Context(), ttl, nil)
	is(t, err, ledger.ErrFenced)
}

func testExclusiveLease(t *testing.T, c Config) {
	w := c.world(t)
	a := w.process(t)
	if !a.Engine().Exclusive() {
		t.Skip("it is not exclusive")
	}
	a.faults.Skew(1000 * ttl)
	if len(names(t, a)) != 1 {
		t.Error("its lease has ended")
	}
	ok(a.lease.Renew(t.Context(), ttl, nil))(t)
	a.faults.Skew(1000 * ttl)
	if won := ok(a.lease.Claim(t.Context(), holdOf(t, a, shard)))(t); len(won) != 1 {
		t.Error("it cannot claim")
	}
}

func testEstablish(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	var got [2]int
	var wg sync.WaitGroup
	for i, p := range []*process{a, b} {
		wg.Go(func() { got[i], _ = p.Establish(t.Context(), "/outbox", 3+i) })
	}
	wg.Wait()
	if got[0] != got[1] || got[0] < 3 || got[0] > 4 {
		t.Errorf("established %v", got)
	}
	want := []ledger.Hold{}
	for i := range got[0] {
		want = append(want, ledger.Hold{Shard: ledger.Shard{Topic: "/outbox", Number: i}})
	}
	want = append(want, ledger.Hold{Shard: ledger.Shard{Topic: topic}}, ledger.Hold{Shard: shard})
	if shards := ok(a.Cluster(t.Context()))(t).Shards; !slices.Equal(shards, want) {
		t.Errorf("shards %v, want %v", shards, want)
	}
	for _, n := range []int{-1, 0, ledger.MaxShards + 1} {
		if _, err := a.Establish(t.Context(), "x", n); err == nil {
			t.Errorf("%d shards were established", n)
		}
	}
}

func testClaim(t *testing.T, c Config) {
	w := c.world(t)
	const shards = 450 // several commits
	var all []*process
	for range 4 {
		all = append(all, w.process(t))
	}
	ok(all[0].Establish(t.Context(), "many", shards))(t)
	owners := map[ledger.Shard]string{}
	contest := func(free []ledger.Hold) {
		t.Helper()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, p := range all {
			wg.Go(func() {
				won, err := p.lease.Claim(t.Context(), free...)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, h := range won {
					if other := owners[h.Shard]; other != "" {
						t.Errorf("%v was won by %s and %s", h.Shard, other, h.Lease)
					}
					owners[h.Shard] = h.Lease
				}
			})
		}
		wg.Wait()
	}
	contest(ok(all[0].Cluster(t.Context()))(t).Shards)
	held := ok(all[1].Cluster(t.Context()))(t).Shards
	if len(owners) != shards+2 || len(held) != shards+2 {
		t.Fatalf("%d of %d were won", len(owners), len(held))
	}
	for _, h := range held {
		if owners[h.Shard] != h.Lease {
			t.Errorf("%v is held by %s, won by %s", h.Shard, h.Lease, owners[h.Shard])
		}
	}
	contest(held) // of live leases
	// The shards of a lease that was left can be claimed, if they are still held by it.
	must(t, all[0].lease.Leave(t.Context()))
	left := 0
	for _, h := range held {
		if h.Lease != all[0].lease.ID() {
			continue
		}
		left++
		if won := ok(all[1].lease.Claim(t.Context(), h))(t); len(won) != 1 {
			t.Fatalf("%v is not free", h)
		}
		if won := ok(all[2].lease.Claim(t.Context(), h))(t); len(won) != 0 {
			t.Fatalf("%v was won although it is held otherwise", h)
		}
		if left == 3 {
			break
		}
	}
}

func testClaimOfEnded(t *testing.T, c Config) {
	during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
		w := c.world(t)
		other := w.process(t)
		var p *process
		ended := false
		plan, arm, finish := before(func() {
			ended = true
			for _, m := range ok(other.Cluster(t.Context()))(t).Members {
				if m.ID == p.lease.ID() {
					must(t, other.Lease(m).Leave(t.Context()))
				}
			}
		})
		p = w.faulty(t, plan)
		free := holdOf(t, p, shard)
		arm()
		won, err := p.lease.Claim(t.Context(), free)
		if ended != errors.Is(err, ledger.ErrFenced) || ended != (len(won) == 0) {
			t.Errorf("ended %v, won %v, %v", ended, won, err)
		}
		finish()
	})
}

func testRelease(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	free := holdOf(t, a, shard)
	is(t, a.Release(t.Context(), free), ledger.ErrFenced)
	held := ok(a.lease.Claim(t.Context(), free))(t)[0]
	must(t, b.Release(t.Context(), holdOf(t, b, shard))) // an operator's
	is(t, a.Release(t.Context(), held), ledger.ErrFenced)
	_, err := a.Own(held).SaveProgress(t.Context(), nil, &ledger.Checkpoint{Epoch: 7, Position: 1})
	is(t, err, ledger.ErrFenced)
	again := ok(b.lease.Claim(t.Context(), free))(t)[0]
	is(t, a.Release(t.Context(), held), ledger.ErrFenced)
	if h := holdOf(t, a, shard); h.Lease != b.lease.ID() {
		t.Errorf("held by %q", h.Lease)
	}
	must(t, b.Release(t.Context(), again))
	if h := holdOf(t, a, shard); h.Lease != "" {
		t.Errorf("held by %q", h.Lease)
	}
}

func testNewLife(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s := a.admit(t, 1, "ann")
	o := a.own(t)
	must(t, b.Engine().NewLife(t.Context()))
	for _, p := range []*process{a, b} {
		if _, err := p.Engine().Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := o.SaveProgress(t.Context(), []ledger.Update{{ID: s.ID, Status: ledger.Status{Generation: s.Generation}}}, nil)
	is(t, err, ledger.ErrFenced)
	_, err = a.lease.Renew(t.Context(), ttl, nil)
	is(t, err, ledger.ErrFenced)
	if got := names(t, b); got != nil {
		t.Error(fmt.Sprint("members ", got))
	}
	b.lease = ok(b.Join(t.Context(), member("b")))(t)
	b.own(t)
	b.stored(t, s.ID)
}
