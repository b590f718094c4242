package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Names of faults in the report.
const (
	killed     = "replicas killed (SIGKILL)"
	stopped    = "owners stopped beyond their lease (SIGSTOP)"
	restarted  = "database crashed and restarted"
	severed    = "connections cut after a statement, its answer lost"
	rolled     = "rolling deploys, one a rollback"
	slowed     = "slow database"
	outboxKill = "of which the outbox's owner"
	leaseLost  = "leases lost, by these or for slowness"
	woken      = "owners that write after their takeover"
	locked     = "leases locked for longer than they last (LOCK TABLE)"
	lockedAny  = "other tables locked"
	crowded    = "database without a free connection (max_connections)"
	terminated = "backends ended (pg_terminate_backend)"
	halfOpen   = "connections half-open for seconds"
)

// faults lets happen what the settings ask for, spread over the time.
func (c *campaign) faults(ctx context.Context, wg *sync.WaitGroup) {
	repeat := func(what string, n int, f func(context.Context) error) {
		if n == 0 {
			return
		}
		c.wanted[what] = n
		every := c.time * 9 / 10 / time.Duration(n)
		wg.Go(func() {
			begin := time.Now()
			for i := range n {
				at := begin.Add(c.time/50 + time.Duration(i)*every + rand.N(every/2+1))
				// A fault that came late does not take the time of the next.
				if !sleep(ctx, time.Until(at)) {
					return
				}
				if err := f(context.WithoutCancel(ctx)); err != nil {
					c.fail(fmt.Errorf("%s: %w", what, err))
					return
				}
				c.happened(what)
			}
		})
	}
	var database sync.Mutex // restarted and asked in turns
	repeat(killed, c.kills, func(ctx context.Context) error { return c.kill(ctx) })
	repeat(stopped, c.stops, func(ctx context.Context) error { return c.halt(ctx) })
	repeat(restarted, c.restarts, func(context.Context) error {
		database.Lock()
		defer database.Unlock()
		from := time.Now()
		err := c.db.restart(rand.N(time.Second))
		c.window(window{nil, from, time.Now()})
		return err
	})
	repeat(severed, c.cuts, func(context.Context) error {
		if i := c.db.cut(); i >= 0 {
			c.window(window{c.slots[i], time.Now(), time.Now().Add(time.Second)})
		}
		return nil
	})
	repeat(woken, c.wakes, c.wake)
	repeat(locked, c.locks, func(ctx context.Context) error {
		database.Lock()
		defer database.Unlock()
		return c.lockLeases(ctx)
	})
	repeat(lockedAny, c.locks, func(ctx context.Context) error {
		database.Lock()
		defer database.Unlock()
		tables := []string{"entries", "logs", "subscriptions", "outbox", "shards", "attempts"}
		from, to, err := c.db.lock(ctx, tables[rand.IntN(len(tables))], time.Second)
		c.window(window{nil, from, to})
		return err
	})
	repeat(crowded, c.crowds, func(ctx context.Context) error {
		database.Lock()
		defer database.Unlock()
		from := time.Now()
		err := c.db.crowd(ctx, time.Second)
		c.window(window{nil, from, time.Now()})
		return err
	})
	repeat(terminated, c.terminations, func(ctx context.Context) error {
		database.Lock()
		defer database.Unlock()
		from := time.Now()
		err := c.db.terminate(ctx)
		c.window(window{nil, from, time.Now().Add(time.Second)})
		return err
	})
	repeat(halfOpen, c.hushes, func(context.Context) error {
		const during = 5 * time.Second
		if i := c.db.hush(during); i >= 0 {
			c.window(window{c.slots[i], time.Now(), time.Now().Add(during + time.Second)})
		}
		return nil
	})
	if c.slow > 0 {
		c.wanted[slowed] = 1
		wg.Go(func() {
			if !sleep(ctx, c.time/2) {
				return
			}
			from := time.Now()
			c.db.delay.Store(int64(c.delay))
			sleep(ctx, c.slow)
			c.db.delay.Store(0)
			c.window(window{nil, from, time.Now()})
			c.happened(slowed)
		})
	}
	if c.deploy {
		c.wanted[rolled] = 2
		wg.Go(func() {
			for i, at := range []time.Duration{c.time / 4, c.time / 4} {
				if !sleep(ctx, at) {
					return
				}
				if err := c.roll(context.WithoutCancel(ctx), i == 0); err != nil {
					c.fail(err)
					return
				}
				c.happened(rolled)
			}
		})
	}
}

// kill kills a random replica and starts another in its place.
func (c *campaign) kill(ctx context.Context) error {
	s := c.anySlot()
	defer s.turn.Unlock()
	owner, _ := c.db.owner(ctx, engine.OutboxTopic) // the database may be away
	if owner == s.options.name {
		c.mu.Lock()
		c.deaths = append(c.deaths, death{at: time.Now()})
		c.mu.Unlock()
		c.happened(outboxKill)
	}
	from := time.Now()
	s.kill()
	c.window(window{s, from, time.Now()})
	c.mu.Lock()
	c.killed = append(c.killed, from)
	c.mu.Unlock()
	sleep(ctx, rand.N(300*time.Millisecond))
	return s.restart(ctx)
}

// halt lets the owner of something stand still for longer than its lease, and go on.
func (c *campaign) halt(ctx context.Context) error {
	s := c.ownerSlot(ctx)
	defer s.turn.Unlock()
	p := s.running()
	if p == nil {
		return nil
	}
	from := time.Now()
	if err := pause(p.cmd.Process); err != nil {
		return err
	}
	sleep(ctx, c.lease+rand.N(c.lease))
	c.window(window{s, from, time.Now()})
	return resume(p.cmd.Process)
}

// lockLeases keeps all replicas from renewing their leases for longer than these last. All run then, and every shard
// has an owner: what nobody owned would not be delivered whatever a replica took its lease for.
func (c *campaign) lockLeases(ctx context.Context) error {
	for _, s := range c.slots {
		s.turn.Lock()
		defer s.turn.Unlock()
	}
	if err := c.db.owned(ctx, 4*c.lease); err != nil {
		return err
	}
	from, to, err := c.db.lock(ctx, "leases", c.lease+lockTime)
	c.window(window{nil, from.Add(-c.lease), to})
	c.mu.Lock()
	c.unleased = append(c.unleased, window{from: from.Add(c.lease), to: to})
	c.mu.Unlock()
	return err
}

// lockTime is how much longer than they last leases cannot be renewed: deliveries stand still then.
const lockTime = 4 * time.Second

// wake lets the outbox's owner stand still in the middle of a write until another one has taken over, and do
// the write then. Nothing may come of it.
func (c *campaign) wake(ctx context.Context) error {
	s := c.ownerSlot(ctx)
	defer s.turn.Unlock()
	p := s.running()
	if p == nil {
		return nil
	}
	from := time.Now()
	// The statement alone may be a question for its types.
	trap, release := c.db.set(slices.Index(c.slots, s), ".outbox WHERE id = ANY", ticketTitle)
	defer release()
	select {
	case <-trap.caught:
	case <-time.After(2 * c.lease):
		return nil // it owns nothing any more
	}
	if err := pause(p.cmd.Process); err != nil {
		return err
	}
	for end := time.Now().Add(4 * c.lease); time.Now().Before(end); sleep(ctx, 50*time.Millisecond) {
		if name, err := c.db.owner(ctx, engine.OutboxTopic); err == nil && name != "" && name != s.options.name {
			sleep(ctx, 500*time.Millisecond) // it has moved what was there
			break
		}
	}
	release()
	sleep(ctx, 300*time.Millisecond)
	c.window(window{s, from, time.Now()})
	return resume(p.cmd.Process)
}

// ownerSlot is where the outbox's owner runs, with its turn; some other one when that cannot be told.
func (c *campaign) ownerSlot(ctx context.Context) *slot {
	name, err := c.db.owner(ctx, engine.OutboxTopic)
	for _, s := range c.slots {
		if err == nil && s.options.name == name {
			s.turn.Lock()
			return s
		}
	}
	return c.anySlot()
}

// roll replaces the replicas one after the other by those of another build. Each ends in order.
func (c *campaign) roll(ctx context.Context, newer bool) error {
	c.newer.Store(true)
	for _, s := range c.slots {
		if err := c.replace(ctx, s, newer); err != nil {
			return err
		}
	}
	c.newer.Store(newer)
	return nil
}

func (c *campaign) replace(ctx context.Context, s *slot, newer bool) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	err := s.end()
	s.mu.Lock()
	s.options.next = newer
	s.mu.Unlock()
	return errors.Join(err, s.restart(ctx))
}
