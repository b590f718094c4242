package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Names of faults in the report.
const (
	killed     = "replicas killed (SIGKILL)"
	stopped    = "owners stopped beyond their lease (SIGSTOP)"
	rolled     = "rolling deploys, one a rollback"
	outboxKill = "of these, the outbox's owner"
	leaseLost  = "leases lost, by these faults or by slowness"
)

// ErrMissed is returned by a [Fault] that had no opportunity to occur. The fault is retried and not counted.
var ErrMissed = errors.New("campaign: the fault had no occasion")

// faults causes the faults specified in the settings, distributed over the campaign.
func (c *Campaign) faults(ctx context.Context, wg *sync.WaitGroup) {
	repeat := func(what string, n int, f func(context.Context) error) {
		if n == 0 {
			return
		}
		c.wanted[what] = n
		every := c.Time * 9 / 10 / time.Duration(n)
		wg.Go(func() {
			begin := time.Now()
			for i := 0; i < n && ctx.Err() == nil; {
				at := begin.Add(c.Time/50 + time.Duration(i)*every + rand.N(every/2+1))
				// A fault that is late does not delay the next fault.
				if !Sleep(ctx, time.Until(at)) {
					return
				}
				err := f(context.WithoutCancel(ctx))
				if errors.Is(err, ErrMissed) {
					continue
				}
				if err != nil {
					c.fail(fmt.Errorf("%s: %w", what, err))
					return
				}
				c.happened(what)
				i++
			}
		})
	}
	c.names = append(c.names, killed, outboxKill, stopped, rolled, leaseLost)
	repeat(killed, c.Kills, c.kill)
	repeat(stopped, c.Stops, c.suspendOwner)
	for _, f := range c.db.Faults(c) {
		c.names = append(c.names, f.Name)
		repeat(f.Name, f.Count, f.Do)
	}
	if c.Deploy {
		c.wanted[rolled] = 2
		wg.Go(func() {
			for i, at := range []time.Duration{c.Time / 4, c.Time / 4} {
				if !Sleep(ctx, at) {
					return
				}
				if err := c.roll(context.WithoutCancel(ctx), i == 0); err != nil {
					c.fail(fmt.Errorf("rolling deploy: %w", err))
					return
				}
				c.happened(rolled)
			}
		})
	}
}

// kill kills a random replica and starts a new one.
func (c *Campaign) kill(ctx context.Context) error {
	s := c.lockAnySlot()
	defer s.Unlock()
	owner, _ := c.db.Owner(ctx, engine.OutboxTopic) // the database may be unavailable
	if owner == s.options.name {
		c.mu.Lock()
		c.deaths = append(c.deaths, death{at: time.Now()})
		c.mu.Unlock()
		c.happened(outboxKill)
	}
	return c.Kill(ctx, s, func() {})
}

// Kill kills a slot's replica, calls dead, and starts a new replica. The caller must hold the slot's lock.
func (c *Campaign) Kill(ctx context.Context, s *Slot, dead func()) error {
	from := time.Now()
	s.kill()
	dead()
	c.Window("its replica was killed", s, from, time.Now())
	c.mu.Lock()
	c.killed = append(c.killed, from)
	c.mu.Unlock()
	Sleep(ctx, rand.N(300*time.Millisecond))
	return s.restart(ctx)
}

// suspendOwner suspends the owner of the outbox for longer than its lease and then resumes it.
func (c *Campaign) suspendOwner(ctx context.Context) error {
	s := c.OwnerSlot(ctx, engine.OutboxTopic)
	defer s.Unlock()
	from := time.Now()
	if err := s.Pause(); err != nil {
		return err
	}
	Sleep(ctx, c.Lease+rand.N(c.Lease))
	c.Window("its replica stood still", s, from, time.Now())
	return s.Resume()
}

// roll replaces the replicas one after another with replicas of another build. Each replica shuts down gracefully.
func (c *Campaign) roll(ctx context.Context, newer bool) error {
	c.newer.Store(true)
	for _, s := range c.slots {
		if err := c.replace(ctx, s, newer); err != nil {
			return err
		}
	}
	c.newer.Store(newer)
	return nil
}

func (c *Campaign) replace(ctx context.Context, s *Slot, newer bool) error {
	s.Lock()
	defer s.Unlock()
	err := s.end()
	s.mu.Lock()
	s.options.next = newer
	s.mu.Unlock()
	return errors.Join(err, s.restart(ctx))
}
