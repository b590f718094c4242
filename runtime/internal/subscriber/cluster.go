package subscriber

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Records is the store of subscription records, with the operations of processes that share it.
type Records interface {
	store.SubscriptionStore
	// The following methods are declared by [engine.Shared].
	Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error)
	AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error
	Establish(ctx context.Context, topic string, n int) (int, error)
	Owned(h engine.ShardFence) engine.Owned
}

// A Cluster represents the processes that serve the store; there may be only one (package solo). Each process
// delivers to the subscriptions of the shards that it owns, and any process answers requests for all of them
// (REP-6, REP-11).
type Cluster struct {
	// Now returns the store's time, which all records and signatures use (REP-8).
	Now func() time.Time
	// May returns a function that is called before every attempt of a ownership. It reports whether the ownership is valid
	// and this process is up to date with the changes of other processes (REP-8, REP-11). If it is nil, every
	// attempt is allowed.
	May func(Ownership) func() bool
	// Tell notifies the owner of the shard that a record was created, changed or deleted. The zero shard means that
	// the shard is unknown.
	Tell func(ctx context.Context, id string, of engine.Shard) error
	// Standing reads the recent actions of operators in all processes (REP-13). It is nil if one process serves the
	// store.
	Standing func(ctx context.Context) (Standing, error)
	// Obsolete returns the error that ends a subscription to the type whose arguments were accepted under the
	// schemas with that fingerprint, or nil while it continues (REP-16). read reports whether this process can read
	// the arguments.
	Obsolete func(et eventtype.Type, schema string, read bool) *events.Error
	// Shards is the number of shards of a new event type.
	Shards int
}

// A Ownership is a period during which this process owns a shard; see package shard.
type Ownership interface {
	ShardFence() engine.ShardFence
	Context() context.Context
	Draining() <-chan struct{}
	Valid() bool
	Fenced()
}

// A part is a shard that this process owns, with its live subscriptions.
type part struct {
	w         *Subscriptions
	ownership Ownership
	et        eventtype.Type
	owned     engine.Owned
	shard     *delivery.Shard

	// Guarded by Subscriptions.mu:
	log      *delivery.Log // nil until the part is open, for a check, and for a log that is not in the store
	open     bool          // subscriptions can be started
	closed   bool
	live     map[*Live]struct{}
	touched  map[string]bool   // records that changed during the restore; nil afterwards
	left     map[string]string // the schemas of records that this build cannot read
	whole    bool              // every record is live, has ended or is in left
	restored []func()          // called once whole is true
	// gaps is the time up to which all subscriptions know of the type's gaps; marked is its stored value.
	gaps, marked time.Time
}

// Ours reports whether this process certainly owns the subscription.
func (h *Live) Ours() bool { return h.part.ownership.Valid() }

// BegunAfter reports whether the subscription began after t.
func (h *Live) BegunAfter(t time.Time) bool { return h.created > t.UnixNano() }

// Now returns the store's time.
func (w *Subscriptions) Now() time.Time { return w.cluster.Now() }

// partOf returns the part of a shard if subscriptions can be started in it, otherwise nil.
func (w *Subscriptions) partOf(s engine.Shard) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.parts[s]; p != nil && p.open && !p.closed {
		return p
	}
	return nil
}

// lookPause is the interval at which the owner of an unserved type's shard checks whether the type is registered.
const lookPause = 500 * time.Millisecond

// markPause is the interval at which an owner stores the mark of the gaps that it has signaled.
const markPause = time.Second

// Own delivers to the subscriptions of a shard while this process owns it. It returns once all deliveries have
// finished and are stored, or the shard is lost.
func (w *Subscriptions) Own(t Ownership) {
	et, ok := w.host.Type(t.ShardFence().Shard.Topic)
	if !ok || et.Current() == nil || !et.Current().Webhooks() {
		w.ownOrphans(t)
		return
	}
	p := w.newPart(t, et)
	if p == nil {
		return // the server ends
	}
	defer p.forget()
	w.background(func() { p.restore(func() {}) })
	tick := time.NewTicker(markPause)
	defer tick.Stop()
	compared := time.Now().Add(rand.N(compareEvery / 2)) // spread over time
	for {
		select {
		case <-t.Context().Done():
			p.close()
			p.shard.Drop()
			return
		case <-t.Draining():
			p.close()
			if err := p.shard.Drain(t.Context()); err != nil && t.Context().Err() == nil {
				w.o.Log.Internal(t.Context(), "giving "+t.ShardFence().Shard.String()+" away", err)
			}
			return
		case <-tick.C:
			p.mark()
			if time.Since(compared) >= compareEvery {
				compared = time.Now()
				w.background(func() {
					if err := p.compare(t.Context()); err != nil && t.Context().Err() == nil {
						w.o.Log.Internal(t.Context(), "comparing "+t.ShardFence().Shard.String()+" with what is stored", err)
					}
				})
			}
		}
	}
}

// Settled returns the number of the type's shards that this process owns and has read.
func (w *Subscriptions) Settled(event string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, p := range w.parts {
		if of.Topic == event && !p.closed && p.touched == nil {
			n++
		}
	}
	return n
}
