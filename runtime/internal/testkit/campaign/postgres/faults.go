package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// faults specifies how often to cause each fault of the database.
type faults struct {
	restarts, cuts, wakes, locks, crowds, terminations, hushes int

	slow  time.Duration // how long the database is slow
	delay time.Duration // of each response during that time
}

// fullFaults returns the faults of a full campaign, scaled to the time available.
func fullFaults(d time.Duration) faults {
	return faults{
		restarts: campaign.Scale(10, d), cuts: campaign.Scale(200, d), wakes: campaign.Scale(25, d), locks: campaign.Scale(10, d),
		crowds: campaign.Scale(5, d), terminations: campaign.Scale(50, d), hushes: campaign.Scale(20, d),
		slow: d / 10, delay: 200 * time.Millisecond,
	}
}

// forRelay returns fewer faults, for a campaign that does not use the store's outbox. The owner of the outbox is not
// suspended during writes.
func (f faults) forRelay() faults {
	f.wakes = 0
	f.restarts, f.cuts, f.locks, f.crowds, f.terminations, f.hushes = half(f.restarts), half(f.cuts), half(f.locks), half(f.crowds), half(f.terminations), half(f.hushes)
	return f
}

func half(n int) int { return (n + 1) / 2 }

// Faults implements [campaign.Database].
func (d *database) Faults(c *campaign.Campaign) []campaign.Fault {
	var turn sync.Mutex // restarts and queries must not overlap
	alone := func(f func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			turn.Lock()
			defer turn.Unlock()
			return f(ctx)
		}
	}
	all := []campaign.Fault{
		{Name: "database crashed and restarted", Count: d.faults.restarts, Do: alone(func(context.Context) error {
			from := time.Now()
			err := d.Restart(rand.N(time.Second))
			c.Window("the database restarted", nil, from, time.Now())
			return err
		})},
		{Name: "connections cut after a statement, its answer lost", Count: d.faults.cuts, Do: func(context.Context) error {
			if i := d.Cut(); i >= 0 {
				c.Window("a connection was cut", c.Slots()[i], time.Now(), time.Now().Add(time.Second))
			}
			return nil
		}},
		{Name: "owners that write after their takeover", Count: d.faults.wakes, Do: func(ctx context.Context) error { return d.wake(ctx, c) }},
		{Name: "leases locked for longer than they last (LOCK TABLE)", Count: d.faults.locks,
			Do: alone(func(ctx context.Context) error { return d.lockLeases(ctx, c) })},
		{Name: "other tables locked", Count: d.faults.locks, Do: alone(func(ctx context.Context) error {
			tables := []string{"entries", "logs", "subscriptions", "outbox", "shards", "attempts"}
			asked, _, to, err := d.Lock(ctx, "mcpe."+tables[rand.IntN(len(tables))], time.Second)
			c.Window("a table was locked", nil, asked, to)
			return err
		})},
		{Name: "database without a free connection (max_connections)", Count: d.faults.crowds, Do: alone(func(ctx context.Context) error {
			from := time.Now()
			err := d.Crowd(ctx, time.Second)
			c.Window("no connection was free", nil, from, time.Now())
			return err
		})},
		{Name: "backends ended (pg_terminate_backend)", Count: d.faults.terminations, Do: alone(func(ctx context.Context) error {
			from := time.Now()
			err := d.Terminate(ctx)
			c.Window("backends were ended", nil, from, time.Now().Add(time.Second))
			return err
		})},
		{Name: "connections half-open for seconds", Count: d.faults.hushes, Do: func(context.Context) error {
			const during = 5 * time.Second
			if i := d.Hush(during); i >= 0 {
				c.Window("connections were half-open", c.Slots()[i], time.Now(), time.Now().Add(during+time.Second))
			}
			return nil
		}},
	}
	if d.faults.slow > 0 {
		all = append(all, campaign.Fault{Name: "slow database", Count: 1, Do: func(ctx context.Context) error {
			from := time.Now()
			d.Slow(d.faults.delay)
			campaign.Sleep(ctx, d.faults.slow)
			d.Slow(0)
			c.Window("the database was slow", nil, from, time.Now())
			return nil
		}})
	}
	return all
}

// lockTime is how long leases remain locked after they have expired. During that time, there must be no deliveries.
const lockTime = 4 * time.Second

// lockLeases prevents all replicas from renewing their leases until after the leases have expired. It first waits until
// all replicas are running and every shard has an owner, because an unowned shard would not test anything.
func (d *database) lockLeases(ctx context.Context, c *campaign.Campaign) error {
	for _, s := range c.Slots() {
		s.Lock()
		defer s.Unlock()
	}
	if err := d.waitOwned(ctx, 4*c.Lease); err != nil {
		return err
	}
	asked, from, to, err := d.Lock(ctx, "mcpe.leases", c.Lease+lockTime)
	c.Window("leases were locked", nil, asked.Add(-c.Lease), to)
	c.Unleased(from.Add(c.Lease), to)
	return err
}

// wake suspends the outbox's owner during a write until another replica has taken over. It then resumes the owner, and
// the write must not have any effect.
func (d *database) wake(ctx context.Context, c *campaign.Campaign) error {
	s := c.OwnerSlot(ctx, engine.OutboxTopic)
	defer s.Unlock()
	from := time.Now()
	// A message without the title might only prepare the statement.
	caught, release := d.Trap(s.Number(), ".outbox WHERE id = ANY", campaign.TicketTitle)
	defer release()
	select {
	case <-caught:
	case <-time.After(2 * c.Lease):
		return campaign.ErrMissed // it is no longer the owner
	}
	if err := s.Pause(); err != nil {
		return err
	}
	taken := campaign.ErrMissed
	for end := time.Now().Add(4 * c.Lease); taken != nil && time.Now().Before(end); campaign.Sleep(ctx, 50*time.Millisecond) {
		if name, err := d.Owner(ctx, engine.OutboxTopic); err == nil && name != "" && name != s.Name() {
			campaign.Sleep(ctx, 500*time.Millisecond) // the next owner has moved the waiting rows
			taken = nil
		}
	}
	release()
	campaign.Sleep(ctx, 300*time.Millisecond)
	c.Window("its replica stood still in a write", s, from, time.Now())
	return cmp.Or(s.Resume(), taken)
}
