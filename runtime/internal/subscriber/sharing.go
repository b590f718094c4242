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

// Records are the records of the store, and what the processes that serve it do with them.
type Records interface {
	store.SubscriptionStore
	// These are [engine.Shared]'s.
	Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error)
	AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error
	Establish(ctx context.Context, topic string, n int) (int, error)
	Owned(h engine.Hold) engine.Owned
}

// A Cluster is the processes that serve the store, of which there may be one (package solo): each delivers to the
// subscriptions of the shards that it owns, and any answers for all (REP-6, REP-11).
type Cluster struct {
	// Now is the store's time, in which everything is stored and signed (REP-8).
	Now func() time.Time
	// May returns what is asked before every attempt of a tenure: whether it lasts and it is known up to a
	// moment ago what the other processes have done (REP-8, REP-11). Nil stands for always.
	May func(Tenure) func() bool
	// Tell tells the owner of the shard that a record was made, changed or deleted; the zero shard
	// stands for an unknown one.
	Tell func(ctx context.Context, id string, of engine.Shard) error
	// Orders reads what operators have ordered for the shard and its owners may not have done (REP-13).
	// none tells that the shard has no subscriptions, for which nothing can have been ordered.
	Orders func(ctx context.Context, owned engine.Owned, none bool) (Orders, error)
	// Obsolete is the error with which a subscription to the type ends whose arguments were accepted under
	// the schemas of that fingerprint; nil while it goes on (REP-16). read tells whether this process
	// understands them.
	Obsolete func(et eventtype.Type, schema string, read bool) *events.Error
	// Shards is how many a new event type gets.
	Shards int
}

// Orders are what operators have ordered for the subscriptions of a shard that is taken up.
type Orders interface {
	// Ends is the error with which the subscription is to end by what was ordered until now; nil for none.
	Ends(ctx context.Context, r *store.Subscription) (*events.Error, error)
	// Finish does the rest to the live ones that pick picks, with what was ordered since.
	Finish(ctx context.Context, pick func(*Live) bool) error
	// Mark stores how far orders are done; now and then, or at once.
	Mark(ctx context.Context, owned engine.Owned, atOnce bool) error
}

// A Tenure is the time for which this process owns a shard; see package shard.
type Tenure interface {
	Hold() engine.Hold
	Context() context.Context
	Draining() <-chan struct{}
	Valid() bool
	Fenced()
}

// A part is a shard that this process owns, with its live subscriptions.
type part struct {
	w      *Subscriptions
	tenure Tenure
	et     eventtype.Type
	owned  engine.Owned
	shard  *delivery.Shard

	// Under Subscriptions.mu:
	log      *delivery.Log // nil until it is open, for a check, and for a log that is none of the store's
	open     bool          // subscriptions can be started
	closed   bool
	live     map[*Live]struct{}
	touched  map[string]bool   // records told of while they were restored; nil afterwards
	left     map[string]string // records that this build cannot read: their schemas
	orders   Orders
	restored []func() // called when the records are restored
	missed   missed
}

// Ours reports whether this process is certainly the one that delivers to the subscription.
func (h *Live) Ours() bool { return h.part.tenure.Valid() }

// BegunAfter reports whether the subscription began after t.
func (h *Live) BegunAfter(t time.Time) bool { return h.created > t.UnixNano() }

// Now is the time that everything is stored in.
func (w *Subscriptions) Now() time.Time { return w.cluster.Now() }

// partOf is the part of a shard if subscriptions can be started in it.
func (w *Subscriptions) partOf(s engine.Shard) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.parts[s]; p != nil && p.open && !p.closed {
		return p
	}
	return nil
}

// lookPause is how often an owner looks whether a type that nobody serves is registered.
const lookPause = 500 * time.Millisecond

// orderPause is how often it is looked whether orders were done that are not marked.
const orderPause = time.Second

// Own delivers to the subscriptions of a shard for as long as this process owns it. It returns when
// everything is concluded and stored, or when the shard is lost.
func (w *Subscriptions) Own(t Tenure) {
	et, ok := w.host.Type(t.Hold().Shard.Topic)
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
	tick := time.NewTicker(orderPause)
	defer tick.Stop()
	compared := time.Now().Add(rand.N(compareEvery / 2)) // not all at once
	for {
		select {
		case <-t.Context().Done():
			p.close()
			p.shard.Drop()
			return
		case <-t.Draining():
			p.close()
			if err := p.shard.Drain(t.Context()); err != nil && t.Context().Err() == nil {
				w.o.Log.Internal(t.Context(), "giving "+t.Hold().Shard.String()+" away", err)
			}
			return
		case <-tick.C:
			p.mark(false)
			if time.Since(compared) >= compareEvery {
				compared = time.Now()
				w.background(func() {
					if err := p.compare(t.Context()); err != nil && t.Context().Err() == nil {
						w.o.Log.Internal(t.Context(), "comparing "+t.Hold().Shard.String()+" with what is stored", err)
					}
				})
			}
		}
	}
}

// Settled is how many shards of the type this process owns and has read.
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
