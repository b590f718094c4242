package subscriber

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Records is a store of subscription records that several processes can share.
type Records interface {
	store.SubscriptionStore
	// The following methods are declared by [engine.Shared].
	Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error)
	AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error
	Establish(ctx context.Context, topic string, n int) (int, error)
	Owned(h engine.ShardFence) engine.Owned
}

// A Cluster represents the processes that serve the store. The store can also have a single process (cluster.Single).
// Each process delivers to the subscriptions of the shards that it owns, and can answer requests for all subscriptions
// (REP-6, REP-11).
type Cluster struct {
	// Name is the name of this process, or "" if only one process serves the store.
	Name string
	// Now returns the current time of the store, which all records and signatures use (REP-8).
	Now func() time.Time
	// Position returns the position of the latest request to end subscriptions or signal a gap that this process knows. A
	// subscription that the process begins to admit now is not covered by that request and earlier ones (REP-13).
	Position func() store.ControlPosition
	// Tell notifies the owner of the shard that a record was created, changed or deleted. A zero Shard means that the
	// shard is unknown.
	Tell func(ctx context.Context, id string, of engine.Shard) error
	// Standing reads the recent actions of operators in all processes (REP-13). It is nil if only one process serves
	// the store.
	Standing func(ctx context.Context) (Standing, error)
	// Obsolete returns the error that ends a subscription to the type, or nil if the subscription continues (REP-16).
	// The parameter schema is the fingerprint of the schemas that accepted the arguments, and read reports whether this
	// process can read the arguments.
	Obsolete func(et eventtype.Type, schema string, read bool) *events.Error
	// Shards is the number of shards of a new event type.
	Shards int
}

// An Ownership is a period during which this process owns a shard. See package shard.
type Ownership interface {
	ShardFence() engine.ShardFence
	Context() context.Context
	Draining() <-chan struct{}
	Valid() bool
	Fenced()
}

// An ownedShard is a shard that this process owns, with its live subscriptions.
type ownedShard struct {
	w         *Subscriptions
	ownership Ownership
	et        eventtype.Type
	owned     engine.Owned
	shard     *delivery.Shard

	// Guarded by Subscriptions.mu:
	log      *delivery.Log // nil until the shard is open, for a check, and for a log that is not in the store
	open     bool          // subscriptions can be started
	closed   bool
	live     map[*Live]struct{}
	touched  map[string]bool   // records that changed during the restore; nil afterwards
	left     map[string]string // the schemas of records that this build cannot read
	whole    bool              // every record is live, has ended or is in left
	restored []func()          // called once whole is true
}

// Ours reports whether this process is certain to own the subscription.
func (h *Live) Ours() bool { return h.ownedShard.ownership.Valid() }

// Now returns the current time of the store.
func (w *Subscriptions) Now() time.Time { return w.cluster.Now() }

// Position returns the position of a subscription that this process begins to admit now, see [Request.Admitted].
func (w *Subscriptions) Position() store.ControlPosition { return w.cluster.Position() }

// ownedShardOf returns the ownedShard for s, or nil if subscriptions cannot be started in it.
func (w *Subscriptions) ownedShardOf(s engine.Shard) *ownedShard {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.ownedShards[s]; p != nil && p.open && !p.closed {
		return p
	}
	return nil
}

// lookPause is the interval at which the owner of a shard checks whether an unserved event type has been registered.
const lookPause = 500 * time.Millisecond

// Own delivers to the subscriptions of a shard while this process owns it. It returns after all deliveries have
// finished and their progress is stored, or after the shard is lost.
func (w *Subscriptions) Own(t Ownership) {
	et, ok := w.host.Type(t.ShardFence().Shard.Topic)
	if !ok || et.Current() == nil || !et.Current().Webhooks() {
		w.ownOrphans(t, false)
		return
	}
	p := w.newOwnedShard(t, et)
	if p == nil {
		return // the server ends
	}
	defer p.removeShard()
	w.runInBackground(func() { p.restore(func() {}) })
	compare := time.NewTimer(compareEvery + rand.N(compareEvery/2)) // spread over time
	defer compare.Stop()
	for {
		select {
		case <-t.Context().Done():
			p.closeShard()
			p.shard.Drop()
			return
		case <-t.Draining():
			p.closeShard()
			if err := p.shard.Drain(t.Context()); err != nil && t.Context().Err() == nil {
				w.o.Log.Internal(t.Context(), "giving "+t.ShardFence().Shard.String()+" away", err)
			}
			return
		case <-compare.C:
			compare.Reset(compareEvery)
			w.runInBackground(func() {
				if err := p.queueDifferences(t.Context()); err != nil && t.Context().Err() == nil {
					w.o.Log.Internal(t.Context(), "comparing "+t.ShardFence().Shard.String()+" with its records", err)
				}
			})
		}
	}
}

// Settled returns how many of the type's shards this process owns and has read.
func (w *Subscriptions) Settled(event string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, p := range w.ownedShards {
		if of.Topic == event && !p.closed && p.touched == nil {
			n++
		}
	}
	return n
}
