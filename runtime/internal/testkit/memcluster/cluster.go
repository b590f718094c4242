// Package memcluster provides an in-memory store for several servers in one process. The servers share it as the
// replicas of a cluster share a database. It is intended for tests. It works in testing/synctest bubbles, where leases
// expire without real waiting. It can simulate failures of a network or a database (see [Faults]).
//
// A [Cluster] represents the database, and each server has a separate [Store]. Records and logs are stored by package
// memory.
package memcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A Cluster is the state that the stores of several servers share.
type Cluster struct {
	// step is held by one step of a store at a time. It is a channel instead of a mutex, because the time in a bubble
	// must be able to advance while a goroutine waits for it.
	step    chan struct{}
	db      *memory.Store
	epoch   int // current generation
	logs    map[string]*sharedLog
	last    uint64 // last fence assigned
	leases  map[uint64]*lease
	shards  map[engine.Shard]uint64
	marks   map[mark]store.Position
	states  map[string]engine.State
	changes uint64 // number of state changes, used as revisions
	history map[string][]engine.SchemaVersion
	outbox  outbox
	slow    time.Duration
}

// A lease is a replica's lease and its expiry.
type lease struct {
	replica engine.Replica
	until   time.Time
}

// A mark identifies a log and a shard for which a position is stored. The log's entries up to the position have been
// offered to the shard.
type mark struct {
	log string
	of  engine.Shard
}

// New returns an empty cluster. A test must create the cluster in the bubble in which it is used.
func New() *Cluster {
	return &Cluster{
		step: make(chan struct{}, 1), db: memory.New(),
		logs: map[string]*sharedLog{}, leases: map[uint64]*lease{}, shards: map[engine.Shard]uint64{},
		marks: map[mark]store.Position{}, states: map[string]engine.State{}, history: map[string][]engine.SchemaVersion{},
	}
}

// A Store is one server's view of a cluster. It implements [engine.Shared], [engine.Outbox], [engine.Attempts]
// and [store.Pinger].
type Store struct {
	c *Cluster

	mu     sync.Mutex
	faults Faults
	closed bool
	logs   map[string]*Log
}

var (
	_ engine.Shared   = (*Store)(nil)
	_ engine.Outbox   = (*Store)(nil)
	_ engine.Attempts = (*Store)(nil)
	_ store.Pinger    = (*Store)(nil)
)

// Open returns a new store on the cluster.
func (c *Cluster) Open() *Store { return &Store{c: c, logs: map[string]*Log{}} }

// do executes f as one step, with the name op for [Faults].
func (s *Store) do(ctx context.Context, op string, f func(c *Cluster) error) error {
	faults, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	select {
	case s.c.step <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.c.step }()
	s.c.expire()
	if err := f(s.c); err != nil {
		return err
	}
	return faults.responseError(op)
}

// query is like do, but for a step with a result. If the response is lost, query returns only an error.
func query[T any](ctx context.Context, s *Store, op string, f func(c *Cluster) (T, error)) (T, error) {
	var v, none T
	err := s.do(ctx, op, func(c *Cluster) (err error) {
		v, err = f(c)
		return err
	})
	if err != nil {
		return none, err
	}
	return v, nil
}

// Durable returns true, because writes survive the server that made them.
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger].
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "Ping", func(*Cluster) error { return nil })
}

// Close closes the store, simulating a crash of its server. Later calls fail. The lease is not released.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// expire deletes expired leases.
func (c *Cluster) expire() {
	now := time.Now()
	maps.DeleteFunc(c.leases, func(_ uint64, l *lease) bool { return !now.Before(l.until) })
}

// Now implements [engine.Shared].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return query(ctx, s, "Now", func(*Cluster) (time.Time, error) { return time.Now(), nil })
}

// BeginEpochs implements [engine.Shared].
func (s *Store) BeginEpochs(ctx context.Context) error {
	return s.do(ctx, "BeginEpochs", func(c *Cluster) error { return c.beginEpochs(0) })
}

// Generation implements [engine.Shared]. It makes no request.
func (s *Store) Generation() uint64 {
	s.c.step <- struct{}{}
	defer func() { <-s.c.step }()
	return uint64(s.c.epoch)
}

// Join implements [engine.Leases].
func (s *Store) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	return query(ctx, s, "Join", func(c *Cluster) (engine.Lease, error) {
		c.last++
		now := time.Now()
		c.leases[c.last] = &lease{engine.Replica{Name: name, Fence: c.last, Types: maps.Clone(types), Report: report}, now.Add(ttl)}
		return engine.Lease{Fence: c.last, Now: now}, nil
	})
}

// Renew implements [engine.Leases].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	return query(ctx, s, "Renew", func(c *Cluster) (engine.Lease, error) {
		l := c.leases[fence]
		if l == nil {
			return engine.Lease{}, engine.ErrFenced
		}
		now := time.Now()
		l.until, l.replica.Types, l.replica.Report = now.Add(ttl), maps.Clone(types), report
		return engine.Lease{Fence: fence, Now: now}, nil
	})
}

// Leave implements [engine.Leases].
func (s *Store) Leave(ctx context.Context, fence uint64) error {
	return s.do(ctx, "Leave", func(c *Cluster) error {
		delete(c.leases, fence)
		return nil
	})
}

// Cluster implements [engine.Leases].
func (s *Store) Cluster(ctx context.Context) (engine.Cluster, error) {
	return query(ctx, s, "Cluster", func(c *Cluster) (engine.Cluster, error) {
		var found engine.Cluster
		for _, fence := range slices.Sorted(maps.Keys(c.leases)) {
			r := c.leases[fence].replica
			r.Types = maps.Clone(r.Types)
			found.Replicas = append(found.Replicas, r)
		}
		for _, of := range slices.SortedFunc(maps.Keys(c.shards), engine.Shard.Compare) {
			found.Shards = append(found.Shards, engine.ShardFence{Shard: of, Fence: c.shards[of]})
		}
		return found, nil
	})
}

// Establish implements [engine.Leases].
func (s *Store) Establish(ctx context.Context, topic string, n int) (int, error) {
	return query(ctx, s, "Establish", func(c *Cluster) (int, error) {
		if n < 1 {
			return 0, fmt.Errorf("memcluster: %d shards of %q, want at least one", n, topic)
		}
		there := 0
		for of := range c.shards {
			if of.Topic == topic {
				there++
			}
		}
		if there > 0 {
			return there, nil
		}
		for i := range n {
			c.shards[engine.Shard{Topic: topic, Number: i}] = 0
		}
		return n, nil
	})
}

// Claim implements [engine.Leases].
func (s *Store) Claim(ctx context.Context, fence uint64, free []engine.ShardFence) ([]engine.Shard, error) {
	return query(ctx, s, "Claim", func(c *Cluster) (won []engine.Shard, err error) {
		if c.leases[fence] == nil {
			return nil, engine.ErrFenced
		}
		for _, h := range free {
			if held, ok := c.shards[h.Shard]; ok && held == h.Fence && c.leases[held] == nil {
				c.shards[h.Shard] = fence
				won = append(won, h.Shard)
			}
		}
		return won, nil
	})
}

// Release implements [engine.Leases].
func (s *Store) Release(ctx context.Context, h engine.ShardFence) error {
	return s.do(ctx, "Release", func(c *Cluster) error {
		if err := c.checkFence(h); err != nil {
			return err
		}
		c.shards[h.Shard] = 0
		return nil
	})
}

// checkFence returns ErrFenced unless h is the current fence of its shard.
func (c *Cluster) checkFence(h engine.ShardFence) error {
	if h.Fence == 0 || c.shards[h.Shard] != h.Fence {
		return engine.ErrFenced
	}
	return nil
}
