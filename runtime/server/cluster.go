package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Replica configures a server on a store that several processes share (store.Shared), such as
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

// A cluster is a server's part in the work that only one of the processes on a shared store may do:
// moving the outbox and deleting what is too old, for the shards that it owns (REP-6).
type cluster struct {
	server *Server
	store  store.Shared
	owner  *shard.Owner
	stop   context.CancelFunc // as a crash would
	done   chan struct{}      // closed when the logs are looked at no more
	builds builds
}

// joinCluster begins the server's part; nil where the store serves one process.
func (s *Server) joinCluster() (*cluster, error) {
	shared, ok := s.options.Store.(store.Shared)
	if !ok {
		return nil, nil
	}
	r := s.options.Replica
	if r.Lease != 0 && r.Lease < minReplicaLease {
		return nil, fmt.Errorf("Options.Replica.Lease is %v, at least %v", r.Lease, minReplicaLease)
	}
	if r.Name == "" {
		host, _ := os.Hostname()
		r.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	c := &cluster{server: s, store: shared}
	duties := []string{store.RetentionTopic}
	if _, ok := shared.(store.Outbox); ok {
		duties = append(duties, store.OutboxTopic)
	}
	o := shard.Options{Leases: shared, Name: r.Name, TTL: r.Lease, Duties: duties, Run: c.run, Logger: s.options.Logger}
	if s.webhooks != nil {
		o.Types, o.Shards, o.Orphans, o.Looked = c.types, shardsOfType, s.options.Replica.orphans(), c.builds.looked
	}
	c.builds.init(s, r.Lease)
	c.owner = shard.New(o)
	if s.clock != nil {
		s.clock.owner.Store(c.owner)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.done = stop, make(chan struct{})
	c.owner.Start(ctx)
	go c.renew(ctx)
	return c, nil
}

// shutdown gives everything away, as long as ctx allows.
func (c *cluster) shutdown(ctx context.Context) error {
	err := c.owner.Shutdown(ctx)
	c.stop()
	<-c.done
	return err
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
	case store.OutboxTopic:
		shard.Sequencing(c.store.(store.Outbox), c.server.options.Logger).Run(t)
	case store.RetentionTopic:
		shard.Retaining(c.store, c.server.options.Logger).Run(t)
	default:
		c.server.webhooks.Own(t)
	}
}
