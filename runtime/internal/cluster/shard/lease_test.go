package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// lateRenewal is a port whose next renewal, once armed, takes effect immediately and answers late; later calls are
// not answered.
type lateRenewal struct {
	port
	armed *atomic.Bool
}

func (p lateRenewal) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := p.port.Renew(ctx, fence, ttl, types, report)
	if err == nil && p.armed.CompareAndSwap(true, false) {
		time.Sleep(1900 * time.Millisecond)
		p.f.mu.Lock()
		p.f.drawn = slices.Repeat([]fault{{lost: 1}}, 1000)
		p.f.mu.Unlock()
	}
	return l, err
}

// REP-8 (M7): a lease counts from its request, not from the answer.
func TestREP8CountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r, heir := w.replica(0, 0.96, nil), w.replica(1, 1, nil)
		late := lateRenewal{port{w.c, r.f}, new(atomic.Bool)}
		r.owner.o.Leases = late
		r.owner = New(r.owner.o)
		r.took = time.Hour
		r.start()
		time.Sleep(5 * time.Second)
		heir.owner.o.Look = 10 * time.Millisecond
		heir.start()
		late.armed.Store(true)
		time.Sleep(20 * time.Second)
		if late.armed.Load() {
			t.Error("nothing was renewed")
		}
		if counts, _ := w.owned([]*replica{heir}); counts[0] != 7 {
			t.Errorf("the heir owns %v", counts)
		}
		if len(w.failures) > 0 {
			t.Error(w.failures)
		}
		for _, r := range []*replica{r, heir} {
			r.stop()
			<-r.owner.ended
		}
	})
}

// standing returns an owner with a lease and without a running loop.
func standing(leases engine.Leases) (*Owner, *session) {
	o := New(Options{Leases: leases, Name: "r", TTL: 10 * time.Second, Shards: 1,
		Types:  func() map[string]string { return map[string]string{"event": "f"} },
		Run:    func(t *Ownership) { <-t.Context().Done() },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return o, o.join(context.Background())
}

// REP-7 (M8): a released shard is not claimed because of an older answer that still names this replica as owner.
func TestREP7ReleasedIsNotTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCells()
		o, s := standing(port{c, &faults{}})
		shard := engine.Shard{Topic: "event"}
		c.mu.Lock()
		c.shards[shard] = s.fence
		c.mu.Unlock()
		older := engine.Cluster{Replicas: []engine.Replica{{Name: "r", Fence: s.fence, Types: s.types}}, Shards: []engine.ShardFence{{Shard: shard, Fence: s.fence}}}
		ctx, cancel := context.WithCancel(context.Background())
		o.release(ctx, s, older.Shards[0])
		if free := o.releaseMoved(ctx, s, older); len(free) > 0 || len(o.ownerships) > 0 {
			t.Errorf("claims %v, and has %d ownerships of what it has released", free, len(o.ownerships))
		}
		delete(o.freed, shard)
		if o.releaseMoved(ctx, s, older); len(o.ownerships) != 1 {
			t.Error("a claim whose answer was lost is not taken up")
		}
		cancel()
		synctest.Wait()
		s.stop()
	})
}

// lateRelease is a port whose releases take effect after their caller has given up.
type lateRelease struct{ port }

func (p lateRelease) Release(ctx context.Context, h engine.ShardFence) error {
	time.AfterFunc(8*time.Second, func() {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		_ = p.c.Release(context.Background(), h)
	})
	<-ctx.Done()
	return fmt.Errorf("releasing: %w", ctx.Err())
}

// REP-7 (M9): if the answer to a release is lost, the lease is given up, because the request may arrive after the
// shard is reclaimed. An error from the store does not end the lease.
func TestREP7LostRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCells()
		shard := engine.Shard{Topic: "event"}
		o, s := standing(lateRelease{port{c, &faults{}}})
		c.mu.Lock()
		c.shards[shard] = s.fence
		c.mu.Unlock()
		ctx := context.Background()
		o.release(ctx, s, engine.ShardFence{Shard: shard, Fence: s.fence})
		if o.isCurrent(s) {
			t.Error("it has its lease after a release that may still arrive")
		}
		again := o.join(ctx)
		if again.fence == s.fence {
			t.Fatal("it joined under the same fence")
		}
		// The late release does not free the work under the new fence.
		c.mu.Lock()
		_ = c.Leave(ctx, s.fence)
		won, err := c.Claim(ctx, again.fence, []engine.ShardFence{{Shard: shard, Fence: s.fence}})
		c.mu.Unlock()
		if err != nil || len(won) != 1 {
			t.Fatal(won, err)
		}
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		if c.shards[shard] != again.fence {
			t.Error("the late release has freed what was claimed again")
		}
		c.mu.Unlock()
		if again.stop != nil {
			again.stop()
		}
	})
	for name, answer := range map[string]error{"released": nil, "somebody else's": engine.ErrFenced} {
		synctest.Test(t, func(t *testing.T) {
			o, s := standing(answeredRelease{port{newCells(), &faults{}}, answer})
			o.release(context.Background(), s, engine.ShardFence{Shard: engine.Shard{Topic: "event"}, Fence: s.fence})
			if !o.isCurrent(s) {
				t.Errorf("%s: an answered release ends the lease", name)
			}
			s.stop()
		})
	}
}

type answeredRelease struct {
	port
	answer error
}

func (p answeredRelease) Release(context.Context, engine.ShardFence) error { return p.answer }
