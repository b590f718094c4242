package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Many represents the processes on a shared store. A request to one of them is sent to the others as an order in the
// [orders.Log]. Only the owner of a shard delivers to its subscriptions, moves the outbox or deletes expired entries
// (REP-6).
type Many struct {
	*orders.Log

	o        Options
	store    engine.Shared
	clock    *clock
	webhooks *subscriber.Subscriptions
	owner    *shard.Owner       // nil in a process that only emits
	stop     context.CancelFunc // ends everything as a crash would
	watching sync.WaitGroup     // goroutines that end with stop
	builds   buildTracker
	oldest   atomic.Int64 // age of the oldest occurrence in the outbox, in nanoseconds
	faults   clusterFaults
}

// Limits on announcements of changes to subscriptions with an unknown shard.
const (
	unknownRate  = 20
	unknownBurst = 50
)

// Records implements [Processes].
func (c *Many) Records(context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	unknown := rate.NewLimiter(unknownRate, unknownBurst)
	return c.store, &subscriber.Cluster{
		Name: c.o.Name, Now: c.clock.now, Shards: Shards, Position: func() store.ControlPosition { return c.Log.Position() },
		Tell: func(ctx context.Context, id string, of engine.Shard) error {
			o := orders.Order{Kind: orders.Changed, Target: &operator.Target{ID: id}}
			if of.Topic != "" {
				o.Target.Event, o.Shard = of.Topic, of.Number
			} else if err := unknown.Wait(ctx); err != nil {
				return err
			}
			return c.Ask(ctx, o)
		},
		Standing: func(ctx context.Context) (subscriber.Standing, error) { return c.Log.Standing(ctx) },
		Obsolete: func(et eventtype.Type, schema string, _ bool) *events.Error {
			return c.builds.obsoleteError(et.Name(), schema)
		},
	}, nil
}

// servedTypes returns the event types for which this process can serve webhook subscriptions, together with the
// fingerprints of their schemas.
func (c *Many) servedTypes() map[string]string {
	types := map[string]string{}
	for _, et := range c.o.Host.EventTypes() {
		if d := et.Current(); d != nil && d.Webhooks() {
			types[et.Name()] = d.Fingerprint()
		}
	}
	return types
}

// Join implements [Processes].
func (c *Many) Join(w *subscriber.Subscriptions) error {
	c.webhooks = w
	c.Log = orders.New(orders.Options{Store: c.store, Now: c.Now, Refresh: c.Refresh, Report: c.o.Log})
	if c.o.EmitOnly {
		return nil
	}
	if err := c.Follow(context.Background(), c.o.Host.Obeyer(c.Log)); err != nil {
		return err
	}
	if c.o.Lease != 0 && c.o.Lease < minLease {
		c.Log.Shutdown()
		return fmt.Errorf("replicas.Options.Lease is %v, must be at least %v", c.o.Lease, minLease)
	}
	duties := []string{engine.RetentionTopic}
	if c.o.Outbox != nil {
		duties = append(duties, engine.OutboxTopic)
	}
	c.builds.init(&c.o, c.store)
	o := shard.Options{Leases: c.store, Name: c.o.Name, TTL: c.o.Lease, Duties: duties, Run: c.ownShard, Report: c.o.Host.Report, Logger: c.o.Logger}
	if w != nil {
		o.Types, o.Shards, o.Orphans, o.Looked = c.servedTypes, Shards, orphanTime, c.builds.recordSchemas
	}
	c.owner = shard.New(o)
	c.clock.owner.Store(c.owner)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.owner.Start(ctx)
	c.watching.Go(func() { c.notifyNewEpochs(ctx) })
	c.watching.Go(func() {
		c.o.Log.Every(ctx, time.Second, "looking for faults", func() error { return c.checkFaults(ctx) })
	})
	return nil
}

// Serve creates the type's shards. The owner of each shard restores the stored subscriptions of the shard.
func (c *Many) Serve(et eventtype.Type, restored func()) error {
	err := c.webhooks.Establish(context.Background(), et.Name())
	restored()
	return err
}

// Shutdown implements [Processes].
func (c *Many) Shutdown(ctx context.Context) error {
	c.Log.Shutdown()
	if c.owner == nil {
		return nil
	}
	err := c.owner.Shutdown(ctx)
	c.stop()
	c.watching.Wait()
	return err
}

// Crash ends the process's ownerships as a crash would. It is for tests.
func (c *Many) Crash() { c.stop() }

// Hurry implements [Processes].
func (c *Many) Hurry() {
	if c.owner != nil {
		c.owner.Hurry()
	}
}

// Status implements [Processes].
func (c *Many) Status() (fence uint64, owned map[string]int, ok bool) {
	if c.owner == nil {
		return 0, nil, false
	}
	fence, owned = c.owner.Status()
	return fence, owned, true
}

// Now implements [Processes].
func (c *Many) Now() time.Time { return c.clock.now() }

// Refresh implements [Processes].
func (c *Many) Refresh(ctx context.Context) { c.clock.queryIfStale(ctx) }

// RecallLater implements [Processes]. It does nothing in a process that only emits, because no client uses the type
// there.
func (c *Many) RecallLater(event string) {
	if c.owner != nil {
		c.Log.RecallLater(event)
	}
}

// renewEvery is the interval at which the logs are checked for new epochs.
const renewEvery = time.Second

// notifyNewEpochs notifies waiting readers of new epochs, even if this process does not append entries (REP-19). It logs
// a warning about each new generation.
func (c *Many) notifyNewEpochs(ctx context.Context) {
	known := c.store.Generation()
	c.o.Log.Every(ctx, renewEvery, "looking at the logs", func() (err error) {
		for _, et := range c.o.Host.EventTypes() {
			if et.Topic() != nil {
				err = errors.Join(err, et.Topic().Renew(ctx))
			}
			c.webhooks.Review(et)
		}
		if now := c.store.Generation(); now != known {
			c.o.Logger.Warn("mcp events: the store has begun a new generation: leases have ended, and logs begin new epochs with a gap", "generation", now)
			known = now
		}
		return err
	})
}

// ownShard performs the work of the owner of a shard.
func (c *Many) ownShard(t *shard.Ownership) {
	switch t.ShardFence().Shard.Topic {
	case engine.OutboxTopic:
		c.sequencingDuty().Run(t)
	case engine.RetentionTopic:
		shard.Retaining(c.store, c.o.Logger).Run(t)
	default:
		c.webhooks.Own(t)
	}
}
