package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// cells is an engine.Leases with the bubble's clock; each replica reaches it through a port.
type cells struct {
	mu     sync.Mutex
	last   uint64
	leases map[uint64]*leaseRow
	shards map[engine.Shard]uint64
	claims int
	claim  func(engine.Shard, uint64) // called inside the step
}

type leaseRow struct {
	name    string
	expires time.Time
	types   map[string]string
}

func newCells() *cells {
	return &cells{leases: map[uint64]*leaseRow{}, shards: map[engine.Shard]uint64{}, claim: func(engine.Shard, uint64) {}}
}

func (c *cells) sweep() {
	maps.DeleteFunc(c.leases, func(_ uint64, l *leaseRow) bool { return !time.Now().Before(l.expires) })
}

func (c *cells) Join(_ context.Context, name string, ttl time.Duration, types map[string]string) (engine.Lease, error) {
	c.last++
	c.leases[c.last] = &leaseRow{name, time.Now().Add(ttl), maps.Clone(types)}
	return engine.Lease{Fence: c.last, Now: time.Now()}, nil
}

func (c *cells) Renew(_ context.Context, fence uint64, ttl time.Duration, types map[string]string) (engine.Lease, error) {
	c.sweep()
	l := c.leases[fence]
	if l == nil {
		return engine.Lease{}, engine.ErrFenced
	}
	l.expires, l.types = time.Now().Add(ttl), maps.Clone(types)
	return engine.Lease{Fence: fence, Now: time.Now()}, nil
}

func (c *cells) Leave(_ context.Context, fence uint64) error {
	delete(c.leases, fence)
	return nil
}

func (c *cells) Cluster(context.Context) (out engine.Cluster, err error) {
	c.sweep()
	for _, f := range slices.Sorted(maps.Keys(c.leases)) {
		out.Replicas = append(out.Replicas, engine.Replica{Name: c.leases[f].name, Fence: f, Types: c.leases[f].types})
	}
	for s, f := range c.shards {
		out.Shards = append(out.Shards, engine.ShardFence{Shard: s, Fence: f})
	}
	slices.SortFunc(out.Shards, func(a, b engine.ShardFence) int {
		return slices.Compare([]string{a.Shard.Topic, fmt.Sprintf("%04d", a.Shard.Number)}, []string{b.Shard.Topic, fmt.Sprintf("%04d", b.Shard.Number)})
	})
	return out, nil
}

func (c *cells) Establish(_ context.Context, topic string, n int) (int, error) {
	for i := range n {
		s := engine.Shard{Topic: topic, Number: i}
		if _, ok := c.shards[s]; !ok {
			c.shards[s] = 0
		}
	}
	return n, nil
}

func (c *cells) Claim(_ context.Context, fence uint64, free []engine.ShardFence) (won []engine.Shard, err error) {
	c.sweep()
	if c.leases[fence] == nil {
		return nil, engine.ErrFenced
	}
	for _, h := range free {
		if at, ok := c.shards[h.Shard]; ok && at == h.Fence && c.leases[h.Fence] == nil {
			c.claims++
			c.claim(h.Shard, fence)
			c.shards[h.Shard] = fence
			won = append(won, h.Shard)
		}
	}
	return won, nil
}

func (c *cells) Release(_ context.Context, h engine.ShardFence) error {
	if c.shards[h.Shard] != h.Fence {
		return engine.ErrFenced
	}
	c.shards[h.Shard] = 0
	return nil
}

// A port connects one replica to the cells: its calls may be delayed, fail before or after they have taken effect, or
// never return.
type port struct {
	c *cells
	f *faults
}

var errLost = errors.New("connection lost")

// call runs a step with the next faults.
func call[T any](ctx context.Context, p port, step func(context.Context) (T, error)) (v T, err error) {
	if err := p.f.before(ctx); err != nil {
		return v, err
	}
	p.c.mu.Lock()
	v, err = step(ctx)
	p.c.mu.Unlock()
	if lost := p.f.after(ctx); lost != nil {
		var none T
		return none, lost
	}
	return v, err
}

func (p port) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, _ json.RawMessage) (engine.Lease, error) {
	return call(ctx, p, func(ctx context.Context) (engine.Lease, error) { return p.c.Join(ctx, name, ttl, types) })
}

func (p port) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, _ json.RawMessage) (engine.Lease, error) {
	return call(ctx, p, func(ctx context.Context) (engine.Lease, error) { return p.c.Renew(ctx, fence, ttl, types) })
}

func (p port) Leave(ctx context.Context, fence uint64) error {
	_, err := call(ctx, p, func(ctx context.Context) (int, error) { return 0, p.c.Leave(ctx, fence) })
	return err
}

func (p port) Cluster(ctx context.Context) (engine.Cluster, error) { return call(ctx, p, p.c.Cluster) }

func (p port) Establish(ctx context.Context, topic string, n int) (int, error) {
	return call(ctx, p, func(ctx context.Context) (int, error) { return p.c.Establish(ctx, topic, n) })
}

func (p port) Claim(ctx context.Context, fence uint64, free []engine.ShardFence) ([]engine.Shard, error) {
	return call(ctx, p, func(ctx context.Context) ([]engine.Shard, error) { return p.c.Claim(ctx, fence, free) })
}

func (p port) Release(ctx context.Context, h engine.ShardFence) error {
	_, err := call(ctx, p, func(ctx context.Context) (int, error) { return 0, p.c.Release(ctx, h) })
	return err
}

// faults are the faults of one replica. They are drawn before the bubble begins and used in order, so that a run is
// reproducible.
type faults struct {
	mu     sync.Mutex
	drawn  []fault
	over   bool          // no more faults
	frozen chan struct{} // not nil while the process is suspended; closed when it resumes
}

type fault struct {
	delay, lag time.Duration // before and after the step
	lost       int           // 1 before it, 2 after it
}

func (f *faults) gate() {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (f *faults) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = make(chan struct{})
}

func (f *faults) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = nil
}

func (f *faults) still() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen != nil
}

func (f *faults) before(ctx context.Context) error {
	f.gate()
	f.mu.Lock()
	var now fault
	if len(f.drawn) > 0 && !f.over {
		now = f.drawn[0]
	}
	f.mu.Unlock()
	if err := sleep(ctx, now.delay); err != nil {
		return err
	}
	f.gate()
	if now.lost == 1 {
		f.pop()
		return errLost
	}
	return ctx.Err()
}

func (f *faults) pop() (now fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.drawn) > 0 && !f.over {
		now, f.drawn = f.drawn[0], f.drawn[1:]
	}
	return now
}

func (f *faults) after(ctx context.Context) error {
	now := f.pop()
	err := sleep(ctx, now.lag)
	f.gate()
	if now.lost == 2 {
		return errLost
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A skewed clock runs at a separate rate, its wall clock can be set, and nothing reads it while the process is
// suspended.
type skewed struct {
	start time.Time
	rate  float64
	f     *faults
	early time.Duration // how much too early its timers fire, by this clock

	mu   sync.Mutex
	wall time.Duration // how far the wall clock was set
}

func (c *skewed) Monotonic() time.Duration {
	c.f.gate()
	return time.Duration(float64(time.Since(c.start)) * c.rate)
}

func (c *skewed) Wall() time.Time {
	mono := c.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(mono + c.wall).Round(0)
}

func (c *skewed) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

func (c *skewed) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(time.Duration(float64(d-min(c.early, d/2))/c.rate), func() {
		c.f.gate()
		f()
	}).Stop
}
