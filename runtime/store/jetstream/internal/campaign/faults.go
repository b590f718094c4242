package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
)

// faults contains the number of nats-server faults of each kind.
type faults struct {
	kills, stops, rolls, partitions, empties int

	outages int // of all servers at once

	stopped, parted time.Duration // for how long
}

const (
	// fullDuration is the duration of a full campaign.
	fullDuration = 20 * time.Minute
	// maxDowntime is the maximum time for which a killed server stays down.
	maxDowntime = 2 * time.Second
)

// scale reduces the fault count of a full campaign in proportion to the available time. It returns at least 1.
func scale(n int, d time.Duration) int {
	return max(1, int(float64(n)*min(1, d.Seconds()/fullDuration.Seconds())))
}

// fullFaults returns the faults of a full campaign, scaled to the available time.
func fullFaults(d time.Duration) faults {
	return faults{kills: scale(20, d), stops: scale(6, d), rolls: scale(5, d), partitions: scale(6, d), empties: scale(3, d),
		stopped: 15 * time.Second, parted: 20 * time.Second}
}

// Faults implements [campaign.Database]. Faults occur one at a time. The next fault begins only when every stream is
// current on every server, so two servers are never down at the same time.
func (d *database) Faults(c *campaign.Campaign) []campaign.Fault {
	var turn sync.Mutex
	times := 0
	fault := func(name string, count int, do func(ctx context.Context, one int) error) campaign.Fault {
		return campaign.Fault{Name: name, Count: count, Do: func(ctx context.Context) error {
			turn.Lock()
			defer turn.Unlock()
			one := d.chooseServer(ctx, times)
			times++
			from := time.Now()
			err := do(ctx, one)
			if err == nil {
				err = d.servers.waitHealthy(ctx)
			}
			c.Window(name, nil, from, time.Now())
			return err
		}}
	}
	parted := 0
	d.plain.Go(func() { d.recordPauses(d.publishing, c) })
	return []campaign.Fault{
		fault("nats-servers killed (SIGKILL)", d.faults.kills, func(ctx context.Context, one int) error {
			n := d.servers.nodes[one]
			n.kill()
			campaign.Sleep(ctx, rand.N(maxDowntime))
			return n.start()
		}),
		fault("nats-servers stopped (SIGSTOP)", d.faults.stops, func(ctx context.Context, one int) error {
			n := d.servers.nodes[one]
			if err := campaign.Pause(n.cmd.Process); err != nil {
				return err
			}
			campaign.Sleep(ctx, d.faults.stopped)
			return campaign.Resume(n.cmd.Process)
		}),
		fault("rolling restarts of nats-servers", d.faults.rolls, func(ctx context.Context, _ int) error {
			for _, n := range d.servers.nodes {
				if err := errors.Join(n.shutDown(), n.start(), d.servers.waitHealthy(ctx)); err != nil {
					return err
				}
			}
			return nil
		}),
		fault("partitions", d.faults.partitions, func(ctx context.Context, one int) error {
			shut := d.servers.setPartitioned
			var alone [nodeCount]*path
			switch parted++; parted % 3 {
			case 0:
				shut = d.servers.setMuted
			case 1: // with a replica that reaches only this server
				alone = d.servers.access[rand.IntN(campaign.Replicas)]
				alone[one] = nil
			}
			set := func(held bool) {
				shut(one, held)
				for _, p := range alone {
					if p != nil {
						p.setBlocked(held)
					}
				}
			}
			set(true)
			campaign.Sleep(ctx, d.faults.parted)
			set(false)
			return nil
		}),
		fault("nats-servers that lost their disk", d.faults.empties, func(_ context.Context, one int) error {
			n := d.servers.nodes[one]
			n.kill()
			if err := os.RemoveAll(n.store); err != nil {
				return err
			}
			return n.start()
		}),
		fault("all nats-servers killed at once", d.faults.outages, func(ctx context.Context, _ int) error {
			for _, n := range d.servers.nodes {
				n.cmd.Process.Kill()
			}
			var err error
			for _, n := range d.servers.nodes {
				n.kill()
				err = errors.Join(err, n.start())
			}
			return err
		}),
	}
}

// chooseServer chooses the server for a fault. It alternates between the leaders of the log, the state and the meta
// group, and a random server.
func (d *database) chooseServer(ctx context.Context, times int) int {
	one := -1
	switch times % 4 {
	case 0:
		one = d.leaderIndex(ctx, logStream)
	case 1:
		one = d.leaderIndex(ctx, stateStream)
	case 2:
		one = d.servers.metaLeader(ctx)
	}
	if one < 0 {
		one = rand.IntN(nodeCount)
	}
	return one
}

// leaderIndex returns the index of a stream's leader, or -1 if the leader is unknown.
func (d *database) leaderIndex(ctx context.Context, stream string) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := d.js.Stream(ctx, stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return -1
	}
	return d.servers.index(s.CachedInfo().Cluster.Leader)
}
