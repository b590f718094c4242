package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// shardsOfType is how many shards the webhook subscriptions of a new event type get.
	shardsOfType = 16
	// orphanTime is how long nobody has to have registered an event type before the webhook
	// subscriptions to it end as those of a removed one do (EVOL-1).
	orphanTime = time.Minute
	// replicaLease is the default of Replica.Lease.
	replicaLease = 10 * time.Second
)

func (r *Replica) orphans() time.Duration {
	if r.orphanTime > 0 {
		return r.orphanTime
	}
	return orphanTime
}

// Changes of what nobody knows are told at most so often.
const (
	unknownRate  = 20
	unknownBurst = 50
)

func (c *cluster) records(context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	unknown := rate.NewLimiter(unknownRate, unknownBurst)
	return c.store, &subscriber.Cluster{
		Now: c.clock.now, Shards: shardsOfType,
		May: func(t subscriber.Tenure) func() bool {
			return func() bool { return c.Heard() && t.Valid() }
		},
		Tell: func(ctx context.Context, id string, of engine.Shard) error {
			o := orders.Order{Kind: orders.Changed, Target: &operator.Target{ID: id}}
			if of.Topic != "" {
				o.Target.Event, o.Shard = of.Topic, of.Number
			} else if err := unknown.Wait(ctx); err != nil {
				return err
			}
			return c.Ask(ctx, o)
		},
		Orders: func(ctx context.Context, owned engine.Owned, none bool) (subscriber.Orders, error) {
			return c.Handoff(ctx, owned, none)
		},
		Obsolete: func(et subscriber.EventType, schema string, _ bool) *events.Error {
			return c.builds.obsolete(et.Name(), schema)
		},
	}, nil
}

// A storeClock is the store's time: by the offset that the last renewal of the lease measured, and until
// there is one by a question of its own (REP-8).
type storeClock struct {
	store engine.Shared
	owner atomic.Pointer[shard.Owner]

	asking sync.Mutex // held by who refreshes
	mu     sync.Mutex
	read   time.Time // by the store
	at     time.Time // when, by this process
}

func (c *storeClock) ask(ctx context.Context) error {
	before := time.Now()
	found, err := c.store.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("asking the store for its time: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = before.Add(time.Since(before) / 2)
	c.read = found.Now
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
func (c *storeClock) refresh(ctx context.Context) {
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
func (c *storeClock) renewed() bool {
	o := c.owner.Load()
	if o == nil {
		return false
	}
	_, known := o.Now()
	return known
}

func (c *storeClock) now() time.Time {
	if o := c.owner.Load(); o != nil {
		if now, known := o.Now(); known {
			return now
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read.Add(time.Since(c.at))
}

// types are the event types whose webhook subscriptions this process can serve, with the fingerprints of
// their schemas.
func (c *cluster) types() map[string]string {
	s := c.server
	s.mu.Lock()
	all := slices.Clone(s.order)
	s.mu.Unlock()
	types := make(map[string]string, len(all))
	for _, et := range all {
		if d := et.current(); d != nil && d.hooked {
			types[et.name] = d.Fingerprint()
		}
	}
	return types
}

func (c *cluster) hurry() {
	if !c.server.options.emitOnly {
		c.owner.Hurry()
	}
}

// builds tell which schemas are served by other processes, and so which subscriptions nobody understands
// any more (REP-16).
type builds struct {
	server  *Server
	store   engine.Shared
	lease   time.Duration
	started time.Time

	mu        sync.Mutex
	seen      map[schemaOf]time.Time // when another process last had it
	histories map[string][]engine.SchemaVersion
	// event, older and newer fingerprint → the feature that changed incompatibly, "" for none
	verdicts map[[3]string]string
}

// A schemaOf is an event type with the fingerprint of its schemas.
type schemaOf struct{ event, fingerprint string }

func (b *builds) init(s *Server, st engine.Shared, lease time.Duration) {
	if lease == 0 {
		lease = replicaLease
	}
	b.server, b.store, b.lease, b.started = s, st, lease, time.Now()
	b.seen, b.histories, b.verdicts = map[schemaOf]time.Time{}, map[string][]engine.SchemaVersion{}, map[[3]string]string{}
}

// looked notes what the other processes serve.
func (b *builds) looked(c engine.Cluster, own uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, r := range c.Replicas {
		if r.Fence == own {
			continue
		}
		for event, fingerprint := range r.Types {
			b.seen[schemaOf{event, fingerprint}] = now
		}
	}
}

// obsolete is the error with which a subscription ends that was accepted under the schemas of that
// fingerprint: they are older than this build's, were changed incompatibly since, and no process has had
// them for the time of a lease, so that one that is restarted comes back in time.
func (b *builds) obsolete(event, schema string) *events.Error {
	s := b.server
	s.mu.Lock()
	et := s.types[event]
	s.mu.Unlock()
	if et == nil || schema == "" {
		return nil
	}
	d := et.current()
	if d == nil || d.Fingerprint() == schema {
		return nil
	}
	known, feature, err := b.judge(event, schema, d)
	if err != nil {
		s.log.Internal(context.Background(), "reading the history of schemas of "+event, err)
		return nil
	}
	if feature == "" || b.present(event, known) {
		return nil
	}
	return fault.SchemaChanged(feature)
}

// judge returns the schemas from the older ones on to d's, without those, and what has changed
// incompatibly between them; "" when nothing has, and when d is not the newer one.
func (b *builds) judge(event, older string, d *definition) (between []engine.SchemaVersion, feature string, err error) {
	newer := d.Fingerprint()
	place := func(known []engine.SchemaVersion, of string) int {
		return slices.IndexFunc(known, func(v engine.SchemaVersion) bool { return v.Fingerprint == of })
	}
	b.mu.Lock()
	known := b.histories[event]
	feature, judged := b.verdicts[[3]string{event, older, newer}]
	b.mu.Unlock()
	if place(known, older) < 0 || place(known, newer) < 0 {
		if judged {
			return nil, "", nil // the history does not have it
		}
		ctx, cancel := context.WithTimeout(context.Background(), hookTime)
		defer cancel()
		if known, err = b.store.History(ctx, event); err != nil {
			return nil, "", err
		}
	}
	from, to := place(known, older), place(known, newer)
	if !judged && from >= 0 && from < to {
		if changes := history.Changes(known[from], d.descriptor()); len(changes) > 0 {
			feature = changes[0].Feature
		}
	}
	b.mu.Lock()
	b.histories[event] = known
	b.verdicts[[3]string{event, older, newer}] = feature
	b.mu.Unlock()
	if from < 0 || from >= to {
		return nil, "", nil
	}
	return known[from:to], feature, nil
}

// present reports whether a process may still serve one of the schemas.
func (b *builds) present(event string, schemas []engine.SchemaVersion) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.started) < b.lease {
		return true // not known yet
	}
	return slices.ContainsFunc(schemas, func(v engine.SchemaVersion) bool {
		seen, ok := b.seen[schemaOf{event, v.Fingerprint}]
		return ok && now.Sub(seen) < b.lease
	})
}
