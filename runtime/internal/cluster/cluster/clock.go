package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A clock provides the store's time. It uses the offset that is measured when the lease is renewed. Before the first
// renewal, it queries the store (REP-8).
type clock struct {
	store engine.Shared
	owner atomic.Pointer[shard.Owner]

	querying sync.Mutex // held during a query
	mu       sync.Mutex
	read     time.Time // the store's time
	at       time.Time // the process's time of read
}

func (c *clock) queryTime(ctx context.Context) error {
	before := time.Now()
	now, err := c.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("reading the store's clock: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = before.Add(time.Since(before) / 2)
	c.read = now
	return nil
}

const (
	// maxClockAge is the maximum age of a query result, because clocks drift. It applies to processes without a lease,
	// which only emit.
	maxClockAge = time.Minute
	// clockTime is the timeout of a query.
	clockTime = 2 * time.Second
)

// queryIfStale queries the store's time if the last result is too old. If the query fails, the old result remains in
// use.
func (c *clock) queryIfStale(ctx context.Context) {
	if _, known := c.leaseTime(); known || !c.querying.TryLock() {
		return
	}
	defer c.querying.Unlock()
	c.mu.Lock()
	old := time.Since(c.at) > maxClockAge
	c.mu.Unlock()
	if old {
		ctx, cancel := context.WithTimeout(ctx, clockTime)
		defer cancel()
		_ = c.queryTime(ctx)
	}
}

// leaseTime returns the store's time and whether it is known from renewals of the lease.
func (c *clock) leaseTime() (now time.Time, known bool) {
	if o := c.owner.Load(); o != nil {
		return o.Now()
	}
	return now, false
}

func (c *clock) now() time.Time {
	if now, known := c.leaseTime(); known {
		return now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read.Add(time.Since(c.at))
}
