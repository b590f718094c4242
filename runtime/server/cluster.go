package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Replica configures a server on a store that several processes share, such as
// PostgreSQL. The zero value is ready to use.
type Replica struct {
	// Name is what logs call the process; default the host's name and the process id.
	Name string
	// Lease is how long the others wait for a process that has died before they do its work; default
	// 10 s, at least 1 s. See REP-6.
	Lease time.Duration

	orphanTime time.Duration // of tests
}

// minReplicaLease leaves room for renewals.
const minReplicaLease = time.Second

// processes are the processes that serve the store as one of them sees them: a [cluster] of several, or one [alone].
type processes interface {
	// records are the store's with what their deliveries need to know of the processes.
	records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error)
	// join makes the server one of them.
	join() error
	// hurry lets the others know soon of what is registered.
	hurry()
	// serve has the webhook subscriptions of a type delivered that is registered. restored is called when those
	// have been restored that were stored.
	serve(et *eventType, restored func()) error
	// shutdown gives everything away, as long as ctx allows.
	shutdown(ctx context.Context) error
	observe(m *metrics, o metric.Observer)

	// now is the time of all of them, and refresh asks for it where it may have become wrong.
	now() time.Time
	refresh(ctx context.Context)

	// What an operator does here is told to the others.
	operate.Processes
	// recallLater has the termination of an event type that lasts looked at again.
	recallLater(event string)
}

// processes are those of the server's store.
func (s *Server) processes(ctx context.Context) (processes, error) {
	shared, ok := s.options.Store.(engine.Shared)
	if !ok {
		return newAlone(s), nil
	}
	c := &cluster{server: s, store: shared, clock: &storeClock{store: shared}}
	return c, c.clock.ask(ctx)
}

// A cluster is a server's part in the work that only one of the processes on a shared store may do:
// moving the outbox and deleting what is too old, for the shards that it owns (REP-6).
type cluster struct {
	*orders.Log // of what operators do

	server *Server
	store  engine.Shared
	clock  *storeClock
	owner  *shard.Owner       // nil in a process that only emits
	stop   context.CancelFunc // as a crash would
	done   chan struct{}      // closed when the logs are looked at no more
	builds builds
}

func (c *cluster) join() (err error) {
	s, r := c.server, c.server.options.Replica
	told := orders.Options{Store: c.store, Now: c.now, Refresh: c.clock.refresh, Report: &s.log}
	if s.options.emitOnly {
		c.Log = orders.New(told)
		return nil
	}
	host := &operate.Obeyer{Admin: s.admin}
	told.Host = host
	c.Log = orders.New(told)
	host.Log = c.Log
	if err = c.Log.Follow(context.Background()); err != nil {
		return err
	}
	if r.Lease != 0 && r.Lease < minReplicaLease {
		c.Log.Shutdown()
		return fmt.Errorf("Options.Replica.Lease is %v, at least %v", r.Lease, minReplicaLease)
	}
	if r.Name == "" {
		host, _ := os.Hostname()
		r.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	duties := []string{engine.RetentionTopic}
	if _, ok := c.store.(engine.Outbox); ok {
		duties = append(duties, engine.OutboxTopic)
	}
	o := shard.Options{Leases: c.store, Name: r.Name, TTL: r.Lease, Duties: duties, Run: c.run, Logger: s.options.Logger}
	if s.webhooks != nil {
		o.Types, o.Shards, o.Orphans, o.Looked = c.types, shardsOfType, s.options.Replica.orphans(), c.builds.looked
	}
	c.builds.init(s, c.store, r.Lease)
	c.owner = shard.New(o)
	c.clock.owner.Store(c.owner)
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.done = stop, make(chan struct{})
	c.owner.Start(ctx)
	go c.renew(ctx)
	return nil
}

// serve makes the type's shards; whoever owns one takes up what is stored.
func (c *cluster) serve(et *eventType, restored func()) error {
	err := c.server.webhooks.Establish(context.Background(), et.name)
	restored()
	return err
}

func (c *cluster) shutdown(ctx context.Context) error {
	c.Log.Shutdown()
	if c.owner == nil {
		return nil
	}
	err := c.owner.Shutdown(ctx)
	c.stop()
	<-c.done
	return err
}

func (c *cluster) now() time.Time { return c.clock.now() }

func (c *cluster) refresh(ctx context.Context) { c.clock.refresh(ctx) }

func (c *cluster) recallLater(event string) {
	if !c.server.options.emitOnly {
		c.Log.RecallLater(event)
	}
}

// renewEvery is how often it is looked whether the logs have begun new epochs.
const renewEvery = time.Second

// renew lets readers that wait hear of a new epoch, when this process appends nothing (REP-19).
func (c *cluster) renew(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.server.mu.Lock()
		types := slices.Clone(c.server.order)
		c.server.mu.Unlock()
		var failed error
		for _, et := range types {
			if et.topic != nil {
				failed = errors.Join(failed, et.topic.Renew(ctx))
			}
			c.server.webhooks.Review(et)
		}
		if failed != nil && !failing && ctx.Err() == nil {
			c.server.log.Internal(ctx, "looking at the logs", failed)
		}
		failing = failed != nil
	}
}

// run does what the owner of a shard does.
func (c *cluster) run(t *shard.Tenure) {
	switch t.Hold().Shard.Topic {
	case engine.OutboxTopic:
		c.sequencing(c.store.(engine.Outbox)).Run(t)
	case engine.RetentionTopic:
		shard.Retaining(c.store, c.server.options.Logger).Run(t)
	default:
		c.server.webhooks.Own(t)
	}
}
