// Package solo presents a store for one process as a cluster of one. On any [store.SubscriptionStore], it gives
// package subscriber the interface of a shared store.
//
// The lifetime of the process, or the lock on a database file, serves as the lease, and every shard belongs to this
// process until it ends. An event type has one shard, which includes records without a shard. Messages to other
// processes are calls within this one, and nothing is stored for them. The package makes no promise of compatibility.
package solo

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Cluster returns the cluster of this process. changed is called for each changed record.
func Cluster(changed func(id string, of engine.Shard)) *subscriber.Cluster {
	return &subscriber.Cluster{
		Now: time.Now,
		May: func(subscriber.Ownership) func() bool { return nil },
		Tell: func(_ context.Context, id string, of engine.Shard) error {
			changed(id, of)
			return nil
		},
		Obsolete: obsolete,
		Shards:   1,
	}
}

// obsolete returns the error that ends a subscription which this process cannot serve, because no other
// process could.
func obsolete(et eventtype.Type, schema string, read bool) *events.Error {
	switch d := et.Current(); {
	case d == nil:
		return fault.NotFound("event")
	case !d.Webhooks():
		return fault.UnsupportedMode(wire.ModeWebhook)
	case d.Changed() != "" && d.Fingerprint() != schema:
		return fault.SchemaChanged(d.Changed())
	case !read:
		return fault.SchemaChanged(fault.FeatureInput)
	}
	return nil
}

// A Ownership is this process's ownership of the shard of an event type. It lasts until the process ends.
type Ownership struct {
	ctx   context.Context
	event string
}

// NewOwnership returns the ownership of an event type, until ctx ends.
func NewOwnership(ctx context.Context, event string) Ownership { return Ownership{ctx, event} }

// Hold returns the shard with the only fence.
func (t Ownership) ShardFence() engine.ShardFence {
	return engine.ShardFence{Shard: engine.Shard{Topic: t.event}, Fence: 1}
}

// Context ends when the server stops; then no subscription is restored any more.
func (t Ownership) Context() context.Context { return t.ctx }

// Draining returns nil, because only this process can own the shard.
func (t Ownership) Draining() <-chan struct{} { return nil }

// Valid returns true.
func (t Ownership) Valid() bool { return true }

// Fenced is never called, because [Records] does not fence writes.
func (t Ownership) Fenced() {}
