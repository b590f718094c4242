package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// subscriptions contains the state of a Store's [store.SubscriptionStore] methods. It is guarded by the Store's lock.
type subscriptions struct {
	records       map[string]store.Subscription
	ids           []string                  // of records, in order; nil if they must be sorted after a change
	owned         map[string]int            // number of records per principal
	marks         map[string]store.Position // by log
	verifications map[[2]string]store.Verification
	attempts      attempts
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
		s.subs = subscriptions{map[string]store.Subscription{}, nil, map[string]int{}, map[string]store.Position{}, map[[2]string]store.Verification{}, attempts{}}
	}
	f(&s.subs)
	return nil
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	conflict := false
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		old := x.records[sub.ID]
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
		x.records[sub.ID] = cloneSubscription(sub)
	})
	if err == nil && conflict {
		err = store.ErrConflict
	}
	return revision, err
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		sub, ok = x.records[id]
		sub = cloneSubscription(sub)
	})
	return sub, ok, err
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) {
		if sub, ok := x.records[id]; ok && sub.Generation == generation {
			delete(x.records, id)
			x.ids = nil
			x.addOwned(sub.Principal, -1)
			x.attempts.forget(id)
		}
	})
}

// Subscriptions implements [store.SubscriptionStore].
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (subs []store.Subscription, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		ids := x.idsAfter(after)
		for _, id := range ids[:min(len(ids), max(limit, 0))] {
			subs = append(subs, cloneSubscription(x.records[id]))
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
			sub, ok := x.records[u.ID]
			if !ok || sub.Generation != u.Generation {
				continue
			}
			sub.Progress, sub.Health, sub.Report = u.Progress, u.Health, u.Report
			x.records[u.ID] = cloneSubscription(sub)
			x.attempts.add(u.ID, made[i])
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
	err = s.withSubscriptions(ctx, func(x *subscriptions) { v, ok = x.verifications[[2]string{principal, url}] })
	return v, ok, err
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) { x.verifications[[2]string{v.Principal, v.URL}] = v })
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	return s.withSubscriptions(ctx, func(x *subscriptions) { delete(x.verifications, [2]string{principal, url}) })
}

// cloneSubscription returns a copy that does not share memory that a caller could modify.
func cloneSubscription(s store.Subscription) store.Subscription {
	s.Arguments = bytes.Clone(s.Arguments)
	s.Requests = maps.Clone(s.Requests) // their slices never change
	s.Secrets = slices.Clone(s.Secrets)
	for i := range s.Secrets {
		s.Secrets[i].Key = bytes.Clone(s.Secrets[i].Key)
	}
	s.Progress.Settled = slices.Clone(s.Progress.Settled)
	return s
}
