package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// page is the number of records to read per call.
const page = 500

// A Single represents the only process that serves a store. It implements [Processes] and, for any
// [store.SubscriptionStore], [subscriber.Records].
//
// The lifetime of the process, or the lock on a database file, serves as the lease. The process owns every shard until
// it exits, so writes are never fenced. An event type has one shard, which includes records without a shard. Messages
// to other processes are local function calls and are not stored.
type Single struct {
	store.SubscriptionStore // nil without webhook delivery

	o        Options
	ctx      context.Context // ends with the server
	stop     context.CancelFunc
	webhooks *subscriber.Subscriptions
	closed   sync.Map // event type → *eventtype.Closing, nil if an operator opened the type again

	stored     []string      // event types of the records of earlier processes
	used       sync.Map      // event types that have, or have had, records
	generation uint64        // greater than that of each record of an earlier process
	requests   atomic.Uint64 // calls of Request

	mu        sync.Mutex
	admitting int       // new records that are being stored
	admitted  sync.Cond // a record was stored, or its write failed
}

func newSingle(o Options) *Single {
	p := &Single{o: o}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.admitted.L = &p.mu
	return p
}

// Records implements [Processes]. It reads all records to find their event types and the latest generation.
func (p *Single) Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	kept, ok := p.o.Store.(store.SubscriptionStore)
	if !ok {
		return nil, nil, errors.New("webhooks: Options.Store does not store subscriptions (store.SubscriptionStore)")
	}
	p.SubscriptionStore, p.generation = kept, 1
	for after := ""; ; {
		some, err := kept.Subscriptions(ctx, after, page)
		if err != nil {
			return nil, nil, fmt.Errorf("webhooks: reading the stored subscriptions: %w", err)
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			if _, known := p.used.LoadOrStore(some[i].Event, true); !known {
				p.stored = append(p.stored, some[i].Event)
			}
			p.generation = max(p.generation, some[i].Admitted.Generation+1)
		}
		after = some[len(some)-1].ID
	}
	return p, &subscriber.Cluster{
		Now:      time.Now,
		Position: p.position,
		Tell: func(_ context.Context, id string, of engine.Shard) error {
			p.webhooks.Changed(id, of)
			return nil
		},
		Obsolete: obsolete,
		Shards:   1,
	}, nil
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

// Join schedules the end of stored subscriptions whose event types are not registered in time (EVOL-1).
func (p *Single) Join(w *subscriber.Subscriptions) error {
	p.webhooks = w
	if len(p.stored) > 0 {
		timer := time.AfterFunc(orphanTime, p.endOrphans)
		context.AfterFunc(p.ctx, func() { timer.Stop() })
	}
	return nil
}

func (p *Single) endOrphans() {
	for _, event := range p.stored {
		p.webhooks.EndOrphans(typeOwnership{p.ctx, event})
	}
}

// Serve implements [Processes].
func (p *Single) Serve(et eventtype.Type, restored func()) error {
	return p.webhooks.Serve(context.Background(), typeOwnership{p.ctx, et.Name()}, et, restored)
}

// Shutdown implements [Processes].
func (p *Single) Shutdown(context.Context) error {
	p.stop()
	return nil
}

// Hurry does nothing, because no other process waits for the types.
func (p *Single) Hurry() {}

// Heard returns true, because this process gives all orders.
func (p *Single) Heard() bool { return true }

// LastLook returns zero: this process does not follow a control log.
func (p *Single) LastLook() time.Time { return time.Time{} }

// Status returns false, because a single process does not need leases.
func (p *Single) Status() (uint64, map[string]int, bool) { return 0, nil, false }

// OutboxAge returns 0: only a shared store has an outbox.
func (p *Single) OutboxAge() time.Duration { return 0 }

// Conflicts returns nil, because this is the only process.
func (p *Single) Conflicts(engine.Cluster) ([]operator.SchemaConflict, error) { return nil, nil }

// Now returns the time of this process.
func (p *Single) Now() time.Time { return time.Now() }

// Refresh does nothing, because Now is always accurate.
func (p *Single) Refresh(context.Context) {}

// position returns the position of a subscription that is admitted now.
func (p *Single) position() store.ControlPosition {
	return store.ControlPosition{Generation: p.generation, Position: store.Position(p.requests.Load())}
}

// Request implements [Processes]. It never fails.
func (p *Single) Request(context.Context) (store.ControlPosition, error) {
	return store.ControlPosition{Generation: p.generation, Position: store.Position(p.requests.Add(1))}, nil
}

// Tell does nothing, because this is the only process.
func (p *Single) Tell(context.Context, orders.Order) error { return nil }

// Ask returns NotFound, because a subscription that is not live here does not exist or could not be restored.
func (p *Single) Ask(context.Context, orders.Order) error { return fault.NotFound("subscription") }

// CloseType stores the termination until the process exits.
func (p *Single) CloseType(_ context.Context, event string, c *eventtype.Closing) error {
	p.closed.Store(event, c)
	return nil
}

// ClosedType implements [Processes].
func (p *Single) ClosedType(_ context.Context, event string) (*eventtype.Closing, error) {
	c, _ := p.closed.Load(event)
	closing, _ := c.(*eventtype.Closing)
	return closing, nil
}

// RecallLater does nothing, because ClosedType never fails.
func (p *Single) RecallLater(string) {}

// ListSubscriptions implements [engine.Lister].
func (p *Single) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) ([]engine.Listed, error) {
	return engine.List(ctx, p.SubscriptionStore, after, limit, failing)
}

// ListSubscription implements [engine.Lister].
func (p *Single) ListSubscription(ctx context.Context, id string) (engine.Listed, bool, error) {
	return engine.ListOne(ctx, p.SubscriptionStore, id)
}

// Admit implements [engine.Shared]. A new record is stored as open, so a later crash does not lose the subscription.
func (p *Single) Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error) {
	if s.Revision == 0 {
		if err := p.reserve(ctx, s.Principal, q, p.CountSubscriptions); err != nil {
			return 0, err
		}
		defer p.release()
	}
	p.used.Store(s.Event, true)
	return p.PutSubscription(ctx, s)
}

// AdmitVerification implements [engine.Shared].
func (p *Single) AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error {
	_, there, err := p.Verification(ctx, v.Principal, v.URL)
	if err != nil {
		return err
	}
	if !there {
		if err := p.reserve(ctx, v.Principal, q, p.CountVerifications); err != nil {
			return err
		}
		defer p.release()
	}
	return p.PutVerification(ctx, v)
}

// reserve reserves space for a record in the quota until release. Each record that is being stored counts toward it,
// and may already be included in the stored count. So reserve counts again after pending writes have finished before it
// reports that the quota is full.
func (p *Single) reserve(ctx context.Context, principal string, q engine.Quota,
	count func(ctx context.Context, principal string) (own, all int, err error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		own, all, err := count(ctx, principal)
		if err != nil {
			return err
		}
		full := q.Full(own+p.admitting, all+p.admitting)
		if full == nil {
			p.admitting++
			return nil
		}
		if p.admitting == 0 {
			return full
		}
		p.admitted.Wait()
	}
}

func (p *Single) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitting--
	p.admitted.Broadcast()
}

// Establish implements [engine.Leases]. A topic has one shard.
func (p *Single) Establish(context.Context, string, int) (int, error) { return 1, nil }

// Owned implements [engine.Shared].
func (p *Single) Owned(h engine.ShardFence) engine.Owned { return ownedType{p, h.Shard.Topic} }

// ownedType accesses the records of one event type.
type ownedType struct {
	*Single
	event string
}

// Subscriptions implements [engine.Owned].
func (o ownedType) Subscriptions(ctx context.Context, after string, limit int) (found []store.Subscription, err error) {
	if _, used := o.used.Load(o.event); !used {
		return nil, nil
	}
	for len(found) < limit {
		some, err := o.Single.Subscriptions(ctx, after, max(limit, page))
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			if some[i].Event == o.event && len(found) < limit {
				found = append(found, some[i])
			}
		}
		after = some[len(some)-1].ID
	}
	return found, nil
}

// SaveAttempts implements [engine.Owned].
func (o ownedType) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	if kept, ok := o.SubscriptionStore.(engine.Attempts); ok {
		return kept.SaveAttempts(ctx, updates, made)
	}
	return o.SaveProgress(ctx, updates)
}

// A typeOwnership represents this process's ownership of the shard of an event type. It lasts until the process exits.
type typeOwnership struct {
	ctx   context.Context
	event string
}

// ShardFence returns the shard of the event type. Its fence is always 1.
func (t typeOwnership) ShardFence() engine.ShardFence {
	return engine.ShardFence{Shard: engine.Shard{Topic: t.event}, Fence: 1}
}

// Context returns a context that is canceled when the server stops. After that, no subscriptions are restored.
func (t typeOwnership) Context() context.Context { return t.ctx }

// Draining returns nil, because only this process can own the shard.
func (t typeOwnership) Draining() <-chan struct{} { return nil }

// Valid returns true.
func (t typeOwnership) Valid() bool { return true }

// Fenced is never called, because writes are not fenced.
func (t typeOwnership) Fenced() {}
