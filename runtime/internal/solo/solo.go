// Package solo makes a cluster of one from a store that serves one process: over any [store.SubscriptionStore] it gives
// package subscriber what a store that several processes share would.
//
// The process, or the lock on a database file, is the lease: [Open] ends what was held before, and every shard is this
// process's until it ends. An event type has one shard, so that it has the records that are older than shards. What
// other processes would be told of is a call, and nothing is stored for it. The package makes no promise of
// compatibility.
package solo

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Cluster is a cluster of this process. changed has a record looked at again.
func Cluster(changed func(id string, of engine.Shard)) *subscriber.Cluster {
	return &subscriber.Cluster{
		Now: time.Now,
		May: func(subscriber.Tenure) func() bool { return nil },
		Tell: func(_ context.Context, id string, of engine.Shard) error {
			changed(id, of)
			return nil
		},
		Orders:   func(context.Context, engine.Owned, bool) (subscriber.Orders, error) { return noOrders{}, nil },
		Obsolete: obsolete,
		Shards:   1,
	}
}

// obsolete is the error with which a subscription ends that this process cannot serve: there is no other.
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

// noOrders are the orders that another process has left: there is none.
type noOrders struct{}

func (noOrders) Ends(context.Context, *store.Subscription) (*events.Error, error) { return nil, nil }
func (noOrders) Finish(context.Context, func(*subscriber.Live) bool) error        { return nil }
func (noOrders) Mark(context.Context, engine.Owned, bool) error                   { return nil }

// A Tenure is the time for which this process owns the shard of an event type: as long as it runs.
type Tenure struct {
	ctx   context.Context
	event string
}

// NewTenure is that of an event type, until ctx ends.
func NewTenure(ctx context.Context, event string) Tenure { return Tenure{ctx, event} }

// Hold is the shard with the only fence that there is.
func (t Tenure) Hold() engine.Hold {
	return engine.Hold{Shard: engine.Shard{Topic: t.event}, Fence: 1}
}

// Context ends when the server stops: nothing is taken up any more.
func (t Tenure) Context() context.Context { return t.ctx }

// Draining is never closed: nobody is there to give the shard to.
func (t Tenure) Draining() <-chan struct{} { return nil }

// Valid reports true.
func (t Tenure) Valid() bool { return true }

// Fenced is never called: [Records] fence nothing.
func (t Tenure) Fenced() {}
