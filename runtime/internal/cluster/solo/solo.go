// Package solo adapts a store for a single process to the interface of a shared store. Package subscriber can thus use
// any [store.SubscriptionStore] like a cluster with one process.
//
// The lifetime of the process, or the lock on a database file, serves as the lease. This process owns every shard until
// it exits. An event type has one shard, which includes records without a shard. Messages to other processes are local
// function calls and are not stored. The package has no compatibility guarantee.
package solo

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Cluster returns a cluster that consists of this process. changed is called for each changed record.
func (r *Records) Cluster(changed func(id string, of engine.Shard)) *subscriber.Cluster {
	return &subscriber.Cluster{
		Now:      time.Now,
		Position: r.position,
		Tell: func(_ context.Context, id string, of engine.Shard) error {
			changed(id, of)
			return nil
		},
		Obsolete: obsolete,
		Shards:   1,
	}
}

// obsolete returns the error with which to end a subscription that this process cannot serve. No other process could
// serve it.
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

// An Ownership represents this process's ownership of the shard of an event type. It lasts until the process exits.
type Ownership struct {
	ctx   context.Context
	event string
}

// NewOwnership returns the ownership of an event type. Its context is ctx.
func NewOwnership(ctx context.Context, event string) Ownership { return Ownership{ctx, event} }

// ShardFence returns the shard of the event type. Its fence is always 1.
func (t Ownership) ShardFence() engine.ShardFence {
	return engine.ShardFence{Shard: engine.Shard{Topic: t.event}, Fence: 1}
}

// Context returns a context that is canceled when the server stops. After that, no subscriptions are restored.
func (t Ownership) Context() context.Context { return t.ctx }

// Draining returns nil, because only this process can own the shard.
func (t Ownership) Draining() <-chan struct{} { return nil }

// Valid returns true.
func (t Ownership) Valid() bool { return true }

// Fenced is never called, because [Records] does not fence writes.
func (t Ownership) Fenced() {}
