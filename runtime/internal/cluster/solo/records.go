package solo

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// page is the number of records to read per call.
const page = 500

// Records implements [subscriber.Records] for a [store.SubscriptionStore] used by one process. It enforces quotas
// itself. This process owns every shard, so writes are never fenced.
type Records struct {
	store.SubscriptionStore
	subscriptions, verifications reservations
	generation                   uint64        // greater than that of each record of an earlier process
	requests                     atomic.Uint64 // calls of Request

	mu   sync.Mutex
	used map[string]bool // event types that have, or have had, records
}

// Open returns the records of s. It reads all of them to find their event types and the latest generation.
func Open(ctx context.Context, s store.SubscriptionStore) (*Records, error) {
	r := &Records{SubscriptionStore: s, generation: 1, used: map[string]bool{}}
	r.subscriptions.init()
	r.verifications.init()
	for after := ""; ; {
		some, err := s.Subscriptions(ctx, after, page)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return r, nil
		}
		for i := range some {
			r.used[some[i].Event] = true
			r.generation = max(r.generation, some[i].Admitted.Generation+1)
		}
		after = some[len(some)-1].ID
	}
}

// position returns the position of a subscription that is admitted now.
func (r *Records) position() store.ControlPosition {
	return store.ControlPosition{Generation: r.generation, Position: store.Position(r.requests.Load())}
}

// Request returns the position of a new request, which covers the subscriptions that were admitted before the call.
func (r *Records) Request() store.ControlPosition {
	return store.ControlPosition{Generation: r.generation, Position: store.Position(r.requests.Add(1))}
}

// Events returns the event types that have, or have had, records.
func (r *Records) Events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.used))
}

// ListSubscriptions implements [engine.Lister].
func (r *Records) ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) ([]engine.Listed, error) {
	return engine.List(ctx, r.SubscriptionStore, after, limit, known)
}

// ListSubscription implements [engine.Lister].
func (r *Records) ListSubscription(ctx context.Context, id string) (engine.Listed, bool, error) {
	return engine.ListOne(ctx, r.SubscriptionStore, id)
}

// Admit implements [engine.Shared]. A new record is stored as open, so a later crash does not lose the subscription.
func (r *Records) Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error) {
	if s.Revision == 0 {
		done, err := r.subscriptions.reserve(ctx, s.Principal, q, r.CountSubscriptions)
		if err != nil {
			return 0, err
		}
		defer done()
	}
	r.mu.Lock()
	r.used[s.Event] = true
	r.mu.Unlock()
	return r.PutSubscription(ctx, s)
}

// AdmitVerification implements [engine.Shared].
func (r *Records) AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error {
	_, there, err := r.Verification(ctx, v.Principal, v.URL)
	if err != nil {
		return err
	}
	if !there {
		done, err := r.verifications.reserve(ctx, v.Principal, q, r.CountVerifications)
		if err != nil {
			return err
		}
		defer done()
	}
	return r.PutVerification(ctx, v)
}

// Establish implements [engine.Leases]. A topic has one shard.
func (r *Records) Establish(context.Context, string, int) (int, error) { return 1, nil }

// Owned implements [engine.Shared].
func (r *Records) Owned(h engine.ShardFence) engine.Owned {
	return owned{r.SubscriptionStore, r, h.Shard.Topic}
}

// owned accesses the records of one event type.
type owned struct {
	store.SubscriptionStore
	r     *Records
	event string
}

// Subscriptions implements [engine.Owned].
func (o owned) Subscriptions(ctx context.Context, after string, limit int) (found []store.Subscription, err error) {
	o.r.mu.Lock()
	used := o.r.used[o.event]
	o.r.mu.Unlock()
	for used && len(found) < limit {
		some, err := o.SubscriptionStore.Subscriptions(ctx, after, max(limit, page))
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
func (o owned) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	if kept, ok := o.SubscriptionStore.(engine.Attempts); ok {
		return kept.SaveAttempts(ctx, updates, made)
	}
	return o.SaveProgress(ctx, updates)
}

// reservations counts the records that are being stored and count toward a quota.
type reservations struct {
	mu   sync.Mutex
	left sync.Cond      // a record was stored, or its write failed
	own  map[string]int // records being stored, by principal
	all  int
}

func (p *reservations) init() { p.own, p.left.L = map[string]int{}, &p.mu }

// reserve reserves space for a record in the quota. done releases the reservation. A record that is being stored may
// already be included in the stored count. So reserve counts again after pending writes have finished before it reports
// that the quota is full.
func (p *reservations) reserve(ctx context.Context, principal string, q engine.Quota,
	count func(ctx context.Context, principal string) (own, all int, err error)) (done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		own, all, err := count(ctx, principal)
		if err != nil {
			return nil, err
		}
		full := q.Full(own+p.own[principal], all+p.all)
		if full == nil {
			p.own[principal]++
			p.all++
			return func() { p.giveBack(principal) }, nil
		}
		if p.all == 0 {
			return nil, full
		}
		p.left.Wait()
	}
}

func (p *reservations) giveBack(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.own[principal]--; p.own[principal] == 0 {
		delete(p.own, principal)
	}
	p.left.Broadcast()
}
