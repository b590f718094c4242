package memory

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// subscriptions contains the state of a Store's [store.SubscriptionStore] methods. It is guarded by the Store's lock.
type subscriptions struct {
	records       map[string]*record
	ids           []string                  // of records, in order; nil if they must be sorted after a change
	owned         map[string]int            // number of records per principal
	marks         map[string]store.Position // by log
	verifications map[[2]string]verification
	attempts      attempts
}

// A verification is a [store.Verification] without its key, principal and URL.
type verification struct {
	method    string
	at, until instant
}

// withSubscriptions calls f with the lock held, unless ctx is done or the store is closed.
func (s *Store) withSubscriptions(ctx context.Context, f func(*subscriptions)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if s.subs.records == nil {
		s.subs = subscriptions{map[string]*record{}, nil, map[string]int{}, map[string]store.Position{}, map[[2]string]verification{}, attempts{}}
	}
	f(&s.subs)
	return nil
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	conflict := false
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		old, _ := x.subscription(sub.ID)
		if conflict = old.Revision != sub.Revision; conflict {
			return
		}
		if old.Revision > 0 && old.Generation == sub.Generation {
			sub.Progress, sub.Health, sub.Report = old.Progress, old.Health, old.Report
		} else {
			sub.Progress.Open = true
		}
		sub.Revision++
		revision = sub.Revision
		if old.Revision > 0 {
			x.addOwned(old.Principal, -1)
		}
		x.addOwned(sub.Principal, 1)
		if old.Revision == 0 {
			x.ids = nil
		}
		x.records[sub.ID] = recordOf(&sub)
	})
	if err == nil && conflict {
		err = store.ErrConflict
	}
	return revision, err
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) { sub, ok = x.subscription(id) })
	return sub, ok, err
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) {
		if r := x.records[id]; r != nil && r.generation == generation {
			delete(x.records, id)
			x.ids = nil
			x.addOwned(r.principal, -1)
			x.attempts.forget(id)
		}
	})
}

// Subscriptions implements [store.SubscriptionStore].
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (subs []store.Subscription, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		ids := x.idsAfter(after)
		for _, id := range ids[:min(len(ids), max(limit, 0))] {
			subs = append(subs, x.records[id].subscription(id))
		}
	})
	return subs, err
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		own, all = x.owned[principal], len(x.records)
	})
	return own, all, err
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.SaveAttempts(ctx, updates, make([][]operator.Attempt, len(updates)))
}

// SaveAttempts implements [engine.Attempts].
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) {
		for i, u := range updates {
			if r := x.records[u.ID]; r != nil && r.generation == u.Generation {
				r.setProgress(&u)
				x.attempts.add(u.ID, made[i])
			}
		}
	})
}

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) { x.marks[log] = max(x.marks[log], to) })
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (to store.Position, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) { to = x.marks[log] })
	return to, err
}

// addOwned adds n to the principal's number of records.
func (x *subscriptions) addOwned(principal string, n int) {
	if x.owned[principal] += n; x.owned[principal] <= 0 {
		delete(x.owned, principal)
	}
}

// Verification implements [store.SubscriptionStore].
func (s *Store) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		var found verification
		if found, ok = x.verifications[[2]string{principal, url}]; ok {
			v = store.Verification{Principal: principal, URL: url, Method: found.method, At: found.at.time(), Until: found.until.time()}
		}
	})
	return v, ok, err
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) {
		x.verifications[[2]string{v.Principal, v.URL}] = verification{v.Method, instantOf(v.At), instantOf(v.Until)}
	})
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) { delete(x.verifications, [2]string{principal, url}) })
}

// subscription returns a copy of the record with the given id.
func (x *subscriptions) subscription(id string) (sub store.Subscription, ok bool) {
	r := x.records[id]
	if r == nil {
		return sub, false
	}
	return r.subscription(id), true
}
