package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A clock is the store's time: by the offset that the last renewal of the lease measured, and until
// there is one by a question of its own (REP-8).
type clock struct {
	store engine.Shared
	owner atomic.Pointer[shard.Owner]

	asking sync.Mutex // held by who refreshes
	mu     sync.Mutex
	read   time.Time // by the store
	at     time.Time // when, by this process
}

func (c *clock) ask(ctx context.Context) error {
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
	// clockAge is how old an answer may become where no lease is renewed, in a process that only emits: clocks drift
	// apart.
	clockAge = time.Minute
	// clockTime bounds a question for a newer one.
	clockTime = 2 * time.Second
)

// refresh asks again where the last answer is old. Without a new one the old one goes on.
func (c *clock) refresh(ctx context.Context) {
	if c.renewed() || !c.asking.TryLock() {
		return
	}
	defer c.asking.Unlock()
	c.mu.Lock()
	old := time.Since(c.at) > clockAge
	c.mu.Unlock()
	if old {
		ctx, cancel := context.WithTimeout(ctx, clockTime)
		defer cancel()
		_ = c.ask(ctx)
	}
}

// renewed tells that the time comes with renewals of the lease.
func (c *clock) renewed() bool {
	o := c.owner.Load()
	if o == nil {
		return false
	}
	_, known := o.Now()
	return known
}

func (c *clock) now() time.Time {
	if o := c.owner.Load(); o != nil {
		if now, known := o.Now(); known {
			return now
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read.Add(time.Since(c.at))
}
