package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Shared is what the suite of [store.Shared] needs of an implementation.
type Shared struct {
	// Open returns two openers of one new store, as two processes have them.
	Open func(t *testing.T) (a, b store.Shared)
	// Slow makes every later change of a subscription's record take a moment, after the hold was
	// checked and before the change can be seen.
	Slow func(t *testing.T, s store.Shared)
	// Begin begins a transaction of an author's; nil when the store has no outbox.
	Begin func(t *testing.T, s store.Shared) Transaction
}

// A Transaction is an author's, with occurrences in it.
type Transaction interface {
	Emit(p store.Prepared) error
	Commit() error
	Rollback() error
}

// TestShared runs the suite for two openers of one store.
func TestShared(t *testing.T, o Shared) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b store.Shared)
	}{
		{"REP-1, REP-2: appends of two are told to both, in order, once, the own ones before Append returns", sharedOrder},
		{"REP-2: opening a log late tells of what comes after", sharedLate},
		{"REP-3: a position that another appended is found by asking", sharedCatchUp},
		{"REP-4: of two that append one id at once one appends", sharedOnce},
		{"REP-6: leases have growing fences and end for good", sharedLeases},
		{"REP-6: the number of shards is fixed when a topic is first seen", sharedEstablish},
		{"REP-6: one of many claims of a shard wins", sharedClaim},
		{"REP-7: every write of an owner whose hold is not current is fenced", sharedFences},
		{"REP-10: marks and concerns are kept per log and shard", sharedMarks},
		{"REP-12: two openers together never exceed a quota", sharedQuota},
		{"REP-12: nor one of verifications", sharedVerificationQuota},
		{"REP-13: states are swapped", sharedStates},
		{"REP-16: histories of schemas grow by one at a time", sharedHistory},
		{"retention follows the options of the last opening", sharedRetention},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := o.Open(t)
			c.run(t, a, b)
		})
	}
	t.Run("REP-7: a claim that comes between check and write waits for the write", func(t *testing.T) {
		a, b := o.Open(t)
		sharedClaimBetween(t, a, b, func() { o.Slow(t, a) })
	})
	if o.Begin == nil {
		return
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b store.Shared, begin func(t *testing.T, s store.Shared) Transaction)
	}{
		{"REP-20: visible after the commit, in order, and gone with a rollback", sharedOutbox},
		{"REP-20: a transaction that commits late is not passed over", sharedOutboxLate},
		{"REP-20, OCC-5: an id that stands is not appended again", sharedOutboxOnce},
		{"REP-7: only the outbox's owner moves it", sharedOutboxFence},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := o.Open(t)
			c.run(t, a, b, o.Begin)
		})
	}
}

// must fails the test on an error and returns the value.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// eventually waits until a condition holds; only a hang fails.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A witness is told of entries by a log.
type witness struct {
	mu   sync.Mutex
	told []store.Entry
}

func (w *witness) options() store.LogOptions {
	return store.LogOptions{Appended: func(entries []store.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, entries...)
	}}
}

func (w *witness) all() []store.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *witness) has(id string) bool {
	return slices.ContainsFunc(w.all(), func(e store.Entry) bool { return e.EventID == id })
}

func (w *witness) ids() (ids []string) {
	for _, e := range w.all() {
		ids = append(ids, e.EventID)
	}
	return ids
}

func sharedOrder(t *testing.T, a, b store.Shared) {
	const writers, each = 4, 25
	var seen [2]witness
	var wg sync.WaitGroup
	logs := []store.EventLog{openLog(t, a, "log", seen[0].options()), openLog(t, b, "log", seen[1].options())}
	for i, l := range logs {
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					id := fmt.Sprintf("%d-%d-%d", i, w, n)
					p, err := l.Append(context.Background(), entry(id))
					if err != nil {
						t.Errorf("Append: %v", err)
					}
					if !seen[i].has(id) {
						t.Errorf("Append of %s at %d returned before Appended was told", id, p)
					}
				}
			})
		}
	}
	wg.Wait()
	const all = 2 * writers * each
	for i := range seen {
		eventually(t, "everything is told", func() bool { return len(seen[i].all()) >= all })
		distinct := map[string]bool{}
		for n, e := range seen[i].all() {
			if e.Position != store.Position(n+1) {
				t.Fatalf("opener %d: entry %d has position %d", i, n, e.Position)
			}
			distinct[e.EventID] = true
		}
		if len(distinct) != all {
			t.Fatalf("opener %d was told of %d different entries, want %d", i, len(distinct), all)
		}
	}
	equal(t, seen[0].ids(), seen[1].ids())
	equal(t, openLog(t, a, "log", store.LogOptions{}).Epoch(), openLog(t, b, "log", store.LogOptions{}).Epoch())
}

func sharedLate(t *testing.T, a, b store.Shared) {
	la := openLog(t, a, "log", store.LogOptions{})
	add(t, la, 3)
	var w witness
	lb := openLog(t, b, "log", w.options())
	if _, head := bounds(t, lb); head != 3 {
		t.Fatalf("head %d, want 3", head)
	}
	add(t, la, 2)
	eventually(t, "two are told", func() bool { return len(w.all()) == 2 })
	equal(t, w.ids(), []string{"e4", "e5"})
	if p, err := lb.Append(t.Context(), entry("mine")); p != 6 || err != nil {
		t.Fatalf("Append = %d, %v", p, err)
	}
	equal(t, w.ids(), []string{"e4", "e5", "mine"})
	sl := lb.(store.SharedLog)
	before := time.Now()
	eventually(t, "the log was looked at", func() bool { return sl.Seen().After(before) })
}

func sharedCatchUp(t *testing.T, a, b store.Shared) {
	var w witness
	lb := openLog(t, b, "log", w.options()).(store.SharedLog)
	la := openLog(t, a, "log", store.LogOptions{})
	for range 5 {
		p := must(la.Append(t.Context(), entry("x")))(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				head, err := lb.CatchUp(t.Context(), p)
				if err != nil || head < p {
					t.Errorf("CatchUp(%d) = %d, %v: a false gap", p, head, err)
				}
			})
		}
		wg.Wait()
		if n := len(w.all()); n < int(p) {
			t.Fatalf("caught up with %d and %d were told", p, n)
		}
	}
	for _, forged := range []store.Position{6, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		if head, err := lb.CatchUp(t.Context(), forged); head != 5 || err != nil {
			t.Fatalf("CatchUp(%d) = %d, %v", forged, head, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lb.CatchUp(ctx, 99); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func sharedOnce(t *testing.T, a, b store.Shared) {
	logs := []store.EventLog{openLog(t, a, "log", store.LogOptions{}), openLog(t, b, "log", store.LogOptions{})}
	for round := range 10 {
		var fresh atomic.Int32
		var places sync.Map
		var wg sync.WaitGroup
		e := entry(fmt.Sprint("id", round))
		for _, l := range logs {
			for range 3 {
				wg.Go(func() {
					p, first, err := l.AppendOnce(context.Background(), e, 0)
					if err != nil {
						t.Errorf("AppendOnce: %v", err)
					}
					if first {
						fresh.Add(1)
					}
					places.Store(p, true)
				})
			}
		}
		wg.Wait()
		places.Range(func(p, _ any) bool {
			if p != store.Position(round+1) {
				t.Errorf("round %d: position %v", round, p)
			}
			return true
		})
		if fresh.Load() != 1 {
			t.Fatalf("%s was appended %d times", e.EventID, fresh.Load())
		}
	}
	reused(t, logs[1], with(entry("id0"), `{}`), 0, 1)
	once(t, logs[1], entry("id0"), 1, 11, true) // above says that the older one does not count
}

const ttl = time.Minute

func join(t *testing.T, s store.Shared, name string) store.Lease {
	t.Helper()
	l, err := s.Join(t.Context(), name, ttl, map[string]string{"event": "f1"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Fence == 0 || l.Now.IsZero() {
		t.Fatalf("lease %+v", l)
	}
	return l
}

func cluster(t *testing.T, s store.Shared) store.Cluster {
	t.Helper()
	c, err := s.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sharedLeases(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	var last uint64
	for i, s := range []store.Shared{a, b, a} {
		l := join(t, s, fmt.Sprint("r", i))
		if l.Fence <= last {
			t.Fatalf("fence %d after %d", l.Fence, last)
		}
		last = l.Fence
	}
	c := cluster(t, b)
	if len(c.Replicas) != 3 || c.Replicas[2].Name != "r2" || c.Replicas[2].Types["event"] != "f1" || c.Now.IsZero() {
		t.Fatalf("cluster %+v", c)
	}
	if _, err := b.Renew(ctx, last, ttl, map[string]string{"event": "f2"}); err != nil {
		t.Fatal(err)
	}
	if c = cluster(t, a); c.Replicas[2].Types["event"] != "f2" {
		t.Fatalf("types after a renewal: %v", c.Replicas[2].Types)
	}
	ok(t, a.Leave(ctx, last))
	ok(t, a.Leave(ctx, last))
	_, err := a.Renew(ctx, last, ttl, nil)
	is(t, err, store.ErrFenced)
	short := must(a.Join(ctx, "short", 10*time.Millisecond, nil))(t)
	eventually(t, "the lease expires", func() bool {
		return !slices.ContainsFunc(cluster(t, b).Replicas, func(r store.Replica) bool { return r.Fence == short.Fence })
	})
	_, err = a.Renew(ctx, short.Fence, ttl, nil)
	is(t, err, store.ErrFenced)
	_, err = a.Claim(ctx, short.Fence, nil)
	is(t, err, store.ErrFenced)
}

func sharedEstablish(t *testing.T, a, b store.Shared) {
	var wg sync.WaitGroup
	var got [2]int
	for i, s := range []store.Shared{a, b} {
		wg.Go(func() { got[i], _ = s.Establish(t.Context(), "event", 3+i) })
	}
	wg.Wait()
	if got[0] != got[1] || got[0] < 3 || got[0] > 4 {
		t.Fatalf("established %v", got)
	}
	if n := must(a.Establish(t.Context(), "event", 16))(t); n != got[0] {
		t.Fatalf("%d shards became %d", got[0], n)
	}
	if n := must(b.Establish(t.Context(), store.OutboxTopic, 1))(t); n != 1 {
		t.Fatalf("%d", n)
	}
	c := cluster(t, a)
	want := []store.Hold{{Shard: store.Shard{Topic: store.OutboxTopic}}}
	for i := range got[0] {
		want = append(want, store.Hold{Shard: store.Shard{Topic: "event", Number: i}})
	}
	equal(t, c.Shards, want)
	if _, err := a.Establish(t.Context(), "none", 0); err == nil {
		t.Fatal("a topic without shards was established")
	}
}

func sharedClaim(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	must(a.Establish(ctx, "event", 4))(t)
	leases := map[uint64]store.Shared{}
	var fences []uint64
	for i := range 6 {
		s := []store.Shared{a, b}[i%2]
		l := join(t, s, fmt.Sprint("r", i))
		leases[l.Fence] = s
		fences = append(fences, l.Fence)
	}
	free := cluster(t, a).Shards
	var mu sync.Mutex
	owners := map[store.Shard]uint64{}
	contest := func(free []store.Hold) {
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
	contest(c.Shards) // of live owners: owners complains when one is won
	first := c.Shards[0]
	is(t, b.Release(ctx, store.Hold{Shard: first.Shard, Fence: first.Fence + 100}), store.ErrFenced)
	ok(t, b.Release(ctx, first))
	is(t, b.Release(ctx, first), store.ErrFenced)
	other := fences[0]
	if other == first.Fence {
		other = fences[1]
	}
	if won := must(leases[other].Claim(ctx, other, []store.Hold{first}))(t); len(won) != 0 {
		t.Fatal("a claim of what is held otherwise won")
	}
	free = []store.Hold{{Shard: first.Shard}}
	if won := must(leases[other].Claim(ctx, other, free))(t); len(won) != 1 {
		t.Fatal("a released shard cannot be claimed")
	}
	ok(t, a.Leave(ctx, other))
	held := store.Hold{Shard: first.Shard, Fence: other}
	rest := fences[2]
	if won := must(leases[rest].Claim(ctx, rest, []store.Hold{held}))(t); len(won) != 1 {
		t.Fatal("the shard of a lease that was left cannot be claimed")
	}
}

// hold has s own a shard of the topic.
func hold(t *testing.T, s store.Shared, lease store.Lease, topic string, number int) store.Hold {
	t.Helper()
	for _, h := range cluster(t, s).Shards {
		if h.Shard == (store.Shard{Topic: topic, Number: number}) {
			if won := must(s.Claim(t.Context(), lease.Fence, []store.Hold{h}))(t); len(won) == 1 {
				return store.Hold{Shard: h.Shard, Fence: lease.Fence}
			}
		}
	}
	t.Fatalf("cannot own %s#%d", topic, number)
	return store.Hold{}
}

// ofShard is a record in a shard of its event.
func ofShard(id string, shard int) store.Subscription {
	s := sample(id)
	s.Shard, s.Progress, s.Health = shard, store.Progress{Epoch: 1, Base: 7}, store.Health{}
	return s
}

func progress(s store.Subscription, base store.Position) store.Update {
	return store.Update{ID: s.ID, Generation: s.Generation, Progress: store.Progress{Epoch: 1, Base: base}}
}

func sharedFences(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	sub := put(t, a, ofShard("sub_1", 1))
	must(a.Establish(ctx, sub.Event, 2))(t)
	must(a.Establish(ctx, store.RetentionTopic, 1))(t)
	old := join(t, a, "old")
	h, keeper := hold(t, a, old, sub.Event, 1), hold(t, a, old, store.RetentionTopic, 0)
	owner := a.Owned(h)
	ok(t, owner.SaveProgress(ctx, []store.Update{progress(sub, 8)}))
	ok(t, owner.Dispatched(ctx, sub.Event, 8, nil))
	sub.Truncated = !sub.Truncated
	sub.Revision = must(owner.PutSubscription(ctx, sub))(t)
	must(a.Retain(ctx, keeper, 10))(t)
	page := must(owner.Subscriptions(ctx, "", 10))(t)
	if len(page) != 1 || page[0].Progress.Base != 8 || page[0].Shard != 1 {
		t.Fatalf("the shard holds %+v", page)
	}
	// Another shard's record is not the owner's to write.
	other := put(t, a, ofShard("sub_2", 0))
	ok(t, owner.SaveProgress(ctx, []store.Update{progress(other, 99)}))
	ok(t, owner.DeleteSubscription(ctx, other.ID, other.Generation))
	ok(t, owner.Dispatched(ctx, sub.Event, 8, []store.Concern{{ID: other.ID, Generation: other.Generation, First: 1}}))
	_, err := owner.PutSubscription(ctx, other)
	is(t, err, store.ErrFenced)
	equal(t, get(t, b, other.ID), other)

	ok(t, a.Leave(ctx, old.Fence))
	heir := join(t, b, "heir")
	hold(t, b, heir, sub.Event, 1)
	hold(t, b, heir, store.RetentionTopic, 0)
	before := get(t, b, sub.ID)
	is(t, owner.SaveProgress(ctx, []store.Update{progress(sub, 9)}), store.ErrFenced)
	is(t, owner.Dispatched(ctx, sub.Event, 99, []store.Concern{{ID: sub.ID, Generation: sub.Generation, First: 1}}), store.ErrFenced)
	is(t, owner.DeleteSubscription(ctx, sub.ID, sub.Generation), store.ErrFenced)
	_, err = owner.PutSubscription(ctx, before)
	is(t, err, store.ErrFenced)
	_, err = a.Retain(ctx, keeper, 10)
	is(t, err, store.ErrFenced)
	equal(t, get(t, b, sub.ID), before)
	if to, _, err := b.Owned(h).Resume(ctx, sub.Event); to != 8 || err != nil {
		t.Fatalf("Resume = %d, %v", to, err)
	}
}

func sharedClaimBetween(t *testing.T, a, b store.Shared, slow func()) {
	ctx := t.Context()
	sub := put(t, a, ofShard("sub_1", 0))
	must(a.Establish(ctx, sub.Event, 1))(t)
	slow()
	owners := []store.Shared{a, b}
	lease := join(t, a, "r0")
	h := hold(t, a, lease, sub.Event, 0)
	for round := range 5 {
		now, next := owners[round%2], owners[(round+1)%2]
		owner := now.Owned(h)
		var wg sync.WaitGroup
		written := make(chan store.Position, 1)
		wg.Go(func() { // writes until it is fenced
			for base := get(t, now, sub.ID).Progress.Base + 1; ; base++ {
				err := owner.SaveProgress(ctx, []store.Update{progress(sub, base)})
				if errors.Is(err, store.ErrFenced) {
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
		ok(t, now.Leave(ctx, lease.Fence)) // as if it had stalled: it does not know
		lease = join(t, next, fmt.Sprint("r", round+1))
		h = hold(t, next, lease, sub.Event, 0)
		after := get(t, next, sub.ID).Progress.Base
		last := <-written
		wg.Wait()
		if again := get(t, next, sub.ID).Progress.Base; again != after || last != after {
			t.Fatalf("round %d: the record was at %d when it was claimed, is at %d now, and its old owner wrote up to %d", round, after, again, last)
		}
	}
}

func sharedMarks(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	x, y := put(t, a, ofShard("sub_x", 0)), put(t, b, ofShard("sub_y", 1))
	must(a.Establish(ctx, x.Event, 2))(t)
	la, lb := join(t, a, "a"), join(t, b, "b")
	ha, hb := hold(t, a, la, x.Event, 0), hold(t, b, lb, x.Event, 1)
	concern := func(s store.Subscription, first store.Position) store.Concern {
		return store.Concern{ID: s.ID, Generation: s.Generation, First: first}
	}
	expect := func(o store.OwnedStore, log string, want store.Position, concerns ...store.Concern) {
		t.Helper()
		to, concerned, err := o.Resume(ctx, log)
		if to != want || err != nil {
			t.Errorf("%s was offered up to %d (%v), want %d", log, to, err, want)
		}
		equal(t, concerned, concerns)
	}
	// The record alone says from where on it is concerned, before anybody dispatches.
	expect(a.Owned(ha), x.Event, 0, concern(x, 8))
	expect(b.Owned(hb), x.Event, 0, concern(y, 8))
	idle := progress(x, 20)
	idle.Idle = true
	ok(t, a.Owned(ha).SaveProgress(ctx, []store.Update{idle}))
	ok(t, a.Owned(ha).Dispatched(ctx, x.Event, 20, nil))
	expect(a.Owned(ha), x.Event, 20)
	expect(b.Owned(hb), x.Event, 0, concern(y, 8))
	ok(t, b.Owned(hb).Dispatched(ctx, x.Event, 12, []store.Concern{concern(y, 11)}))
	ok(t, b.Owned(hb).Dispatched(ctx, "another log", 3, nil))
	expect(b.Owned(hb), x.Event, 12, concern(y, 8))
	expect(b.Owned(hb), "another log", 3)
	ok(t, a.Owned(ha).Dispatched(ctx, x.Event, 25, []store.Concern{concern(x, 23)}))
	// A third takes over both.
	ok(t, a.Leave(ctx, la.Fence))
	ok(t, b.Leave(ctx, lb.Fence))
	lc := join(t, b, "c")
	expect(b.Owned(hold(t, b, lc, x.Event, 0)), x.Event, 25, concern(x, 23))
	expect(b.Owned(hold(t, b, lc, x.Event, 1)), x.Event, 12, concern(y, 8))
	// Made at any replica whenever: it is concerned although its shard's mark is beyond its base.
	z := put(t, a, ofShard("sub_z", 0))
	expect(b.Owned(hold(t, b, joinAfter(t, b, lc), x.Event, 0)), x.Event, 25, concern(x, 23), concern(z, 8))
}

func joinAfter(t *testing.T, s store.Shared, old store.Lease) store.Lease {
	t.Helper()
	ok(t, s.Leave(t.Context(), old.Fence))
	return join(t, s, "next")
}

func sharedQuota(t *testing.T, a, b store.Shared) {
	const own, all, tries = 3, 5, 6
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := map[string][]store.Subscription{}
	refused := map[bool]int{}
	for i, s := range []store.Shared{a, b} {
		for _, principal := range []string{"alice", "bob"} {
			for n := range tries {
				wg.Go(func() {
					sub := ofShard(fmt.Sprintf("sub_%s_%d_%d", principal, i, n), 0)
					sub.Principal = principal
					revision, err := s.Admit(context.Background(), sub, store.Quota{Own: own, All: all})
					mu.Lock()
					defer mu.Unlock()
					var q *store.QuotaError
					switch {
					case err == nil && revision > 0:
						admitted[principal] = append(admitted[principal], sub)
					case errors.As(err, &q) && errors.Is(err, store.ErrQuota):
						refused[q.Own]++
					default:
						t.Errorf("Admit = %d, %v", revision, err)
					}
				})
			}
		}
	}
	wg.Wait()
	if n := len(admitted["alice"]) + len(admitted["bob"]); n != all || len(admitted["alice"]) > own || len(admitted["bob"]) > own {
		t.Fatalf("%d and %d were admitted, %v refused", len(admitted["alice"]), len(admitted["bob"]), refused)
	}
	ctx := t.Context()
	for principal, subs := range admitted {
		if mine, sum, err := b.CountSubscriptions(ctx, principal); mine != len(subs) || sum != all || err != nil {
			t.Fatalf("%s has %d of %d, %v", principal, mine, sum, err)
		}
	}
	full := "alice"
	if len(admitted[full]) < own {
		full = "bob"
	}
	first := admitted[full][0]
	// A refresh takes nothing of the quota, nor does a new generation of the same key.
	first.Revision = 1
	first.Revision = must(b.Admit(ctx, first, store.Quota{Own: own, All: all}))(t)
	first.Generation++
	first.Revision = must(a.Admit(ctx, first, store.Quota{Own: own, All: all}))(t)
	ok(t, b.DeleteSubscription(ctx, first.ID, first.Generation))
	ok(t, b.DeleteSubscription(ctx, first.ID, first.Generation))
	for i := range 2 {
		sub := ofShard(fmt.Sprint("sub_again_", i), 0)
		sub.Principal = full
		if _, err := a.Admit(ctx, sub, store.Quota{Own: own, All: all}); (err == nil) != (i == 0) {
			t.Fatalf("after one was deleted, admitting number %d: %v", i+1, err)
		}
	}
}

func sharedVerificationQuota(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	q := store.Quota{Own: 3, All: 4}
	var admitted atomic.Int32
	var wg sync.WaitGroup
	for i, s := range []store.Shared{a, b} {
		for n := range 4 {
			wg.Go(func() {
				err := s.AdmitVerification(ctx, store.Verification{Principal: "alice", URL: fmt.Sprint(i, n), Until: at(1)}, q)
				if err == nil {
					admitted.Add(1)
				} else if !errors.Is(err, store.ErrQuota) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if admitted.Load() != 3 {
		t.Fatalf("%d were admitted", admitted.Load())
	}
	ok(t, b.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "u"}, q))
	ok(t, b.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "u", Method: "again"}, q))
	is(t, a.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "v"}, q), store.ErrQuota)
	if n, err := a.SweepVerifications(ctx, at(2), 2); n != 2 || err != nil {
		t.Fatalf("swept %d, %v", n, err)
	}
	ok(t, a.DeleteVerification(ctx, "bob", "u"))
	ok(t, a.DeleteVerification(ctx, "bob", "u"))
	if own, all, err := b.CountVerifications(ctx, "alice"); own != 1 || all != 1 || err != nil {
		t.Fatalf("%d of %d, %v", own, all, err)
	}
}

func sharedStates(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	s := store.State{Key: "terminated/x", Value: []byte(`{"n":1}`)}
	s.Revision = must(a.PutState(ctx, s))(t)
	_, err := b.PutState(ctx, store.State{Key: s.Key})
	is(t, err, store.ErrConflict)
	_, err = b.PutState(ctx, store.State{Key: "none", Revision: 1})
	is(t, err, store.ErrConflict)
	s.Value = []byte(`{"n":2}`)
	s.Revision = must(b.PutState(ctx, s))(t)
	for _, key := range []string{"terminated/a", "paused/x", "terminated_"} {
		must(a.PutState(ctx, store.State{Key: key, Value: []byte(`0`)}))(t)
	}
	all := must(a.States(ctx, "terminated/", "", 10))(t)
	if len(all) != 2 || all[0].Key != "terminated/a" || string(all[1].Value) != `{"n":2}` || all[1].Revision != s.Revision {
		t.Fatalf("states %+v", all)
	}
	if page := must(a.States(ctx, "", all[0].Key, 1))(t); len(page) != 1 || page[0].Key != s.Key {
		t.Fatalf("page %+v", page)
	}
	is(t, a.DeleteState(ctx, s.Key, s.Revision-1), store.ErrConflict)
	ok(t, a.DeleteState(ctx, s.Key, s.Revision))
	if all := must(b.States(ctx, "terminated/", "", 10))(t); len(all) != 1 {
		t.Fatalf("states after a deletion %+v", all)
	}
}

func sharedHistory(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	v := func(i int) store.SchemaVersion {
		return store.SchemaVersion{Fingerprint: fmt.Sprint("f", i), InputSchema: []byte(`{}`), PayloadSchema: []byte(`{"n":1}`), Floor: store.Position(i)}
	}
	if h := must(a.History(ctx, "event"))(t); len(h) != 0 {
		t.Fatalf("history %v", h)
	}
	ok(t, a.AddSchema(ctx, "event", v(0), 0))
	is(t, b.AddSchema(ctx, "event", v(1), 0), store.ErrConflict)
	is(t, b.AddSchema(ctx, "event", v(1), 2), store.ErrConflict)
	ok(t, b.AddSchema(ctx, "event", v(1), 1))
	ok(t, a.AddSchema(ctx, "other", v(7), 0))
	var won atomic.Int32
	var wg sync.WaitGroup
	for i, s := range []store.Shared{a, b, a, b} {
		wg.Go(func() {
			switch err := s.AddSchema(ctx, "event", v(10+i), 2); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h := must(b.History(ctx, "event"))(t)
	if won.Load() != 1 || len(h) != 3 {
		t.Fatalf("%d won, history %+v", won.Load(), h)
	}
	equal(t, h[:2], []store.SchemaVersion{v(0), v(1)})
}

func sharedRetention(t *testing.T, a, b store.Shared) {
	ctx := t.Context()
	la := openLog(t, a, "log", store.LogOptions{})
	add(t, la, 30)
	lb := openLog(t, b, "log", store.LogOptions{MaxCount: 10}).(store.SharedLog)
	must(b.Establish(ctx, store.RetentionTopic, 1))(t)
	h := hold(t, b, join(t, b, "keeper"), store.RetentionTopic, 0)
	steps := 0
	for more := true; more; steps++ {
		more = must(b.Retain(ctx, h, 8))(t)
	}
	if steps < 3 {
		t.Errorf("20 entries went in %d steps of 8", steps)
	}
	eventually(t, "the other opener follows", func() bool {
		oldest, _ := bounds(t, la)
		return oldest == 21
	})
	batch := read(t, la, 5, 100)
	if !batch.Gap || len(batch.Entries) != 10 || batch.Entries[0].Position != 21 {
		t.Fatalf("gap %v, %d entries", batch.Gap, len(batch.Entries))
	}
	once(t, lb, entry("e25"), 0, 25, false)
	once(t, la, entry("e5"), 0, 31, true) // no longer retained
	if more := must(b.Retain(ctx, h, 100))(t); more {
		t.Fatal("there is more after everything is gone")
	}
	fresh := openLog(t, a, "another", store.LogOptions{})
	if oldest, head := bounds(t, fresh); oldest != 1 || head != 0 {
		t.Fatalf("another log has %d, %d", oldest, head)
	}
}

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
