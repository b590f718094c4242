package shared

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// noEvent is the topic of a subscription without an event type, which a suite of today stores. No event type has a slash.
const noEvent = "/none"

func shardOf(s *store.Subscription) domain.Shard {
	return domain.Shard{Topic: cmp.Or(s.Event, noEvent), Number: s.Shard}
}

// desired returns the part of a subscription that any process writes.
func desired(s *store.Subscription) ledger.Subscription {
	return ledger.Subscription{
		ID: s.ID, Principal: s.Principal, URL: s.URL, Shard: shardOf(s), Generation: s.Generation,
		Arguments: bytes.Clone(s.Arguments), Schema: s.Schema, Secrets: slices.Clone(s.Secrets), Codes: s.Codes,
		CreatedAt: s.CreatedAt, RefreshedAt: s.RefreshedAt, ExpiresAt: s.ExpiresAt, NotBefore: s.NotBefore,
		Truncated: s.Truncated, PausedAt: s.PausedAt, Revision: s.Revision,
	}
}

// stored returns a subscription as today's stores do.
func stored(s *ledger.State) store.Subscription {
	r := store.Subscription{
		ID: s.ID, Principal: s.Principal, URL: s.URL, Event: s.Shard.Topic, Shard: s.Shard.Number, Generation: s.Generation,
		Arguments: s.Arguments, Schema: s.Schema, Secrets: slices.Clone(s.Secrets), Codes: s.Codes,
		CreatedAt: s.CreatedAt, RefreshedAt: s.RefreshedAt, ExpiresAt: s.ExpiresAt, NotBefore: s.NotBefore,
		Truncated: s.Truncated, PausedAt: s.PausedAt, Revision: s.Revision,
		Progress: s.Status.Progress, Health: s.Status.Health,
	}
	if r.Event == noEvent {
		r.Event = ""
	}
	r.Progress.Settled = slices.Clone(r.Progress.Settled)
	return r
}

// PutSubscription implements [store.SubscriptionStore]. The ledger stores a new subscription with a zero Health; the
// suite's is stored in a second step.
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	revision, err = s.Admit(ctx, sub, domain.Quota{})
	if err != nil || sub.Health == (store.Health{}) {
		return revision, err
	}
	now, ok, err := s.State(ctx, sub.ID)
	if err != nil || !ok || now.Status.Health != (store.Health{}) || now.Generation != sub.Generation {
		return revision, err
	}
	return revision, s.SaveProgress(ctx, []store.Update{
		{ID: sub.ID, Generation: sub.Generation, Progress: now.Status.Progress, Health: sub.Health},
	})
}

// Admit implements [domain.Shared].
func (s *Store) Admit(ctx context.Context, sub store.Subscription, q domain.Quota) (revision uint64, err error) {
	old, ok, err := s.Ledger.Subscription(ctx, sub.ID)
	switch {
	case err != nil:
		return 0, err
	case old.Revision != sub.Revision:
		return 0, store.ErrConflict
	case ok && old.Generation == sub.Generation:
		return s.refresh(ctx, &sub)
	}
	admitted, err := s.Ledger.Admit(ctx, desired(&sub), sub.Progress, q)
	return admitted.Revision, err
}

// refresh replaces the part of a subscription that any process writes.
func (s *Store) refresh(ctx context.Context, sub *store.Subscription) (revision uint64, err error) {
	var current bool
	now, ok, err := s.Change(ctx, sub.ID, func(x *ledger.Subscription) bool {
		if current = x.Revision == sub.Revision; current {
			next := desired(sub)
			next.Counted = x.Counted
			*x = next
		}
		return current
	})
	if err == nil && !(ok && current) {
		err = store.ErrConflict
	}
	return now.Revision, err
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	found, ok, err := s.State(ctx, id)
	switch {
	case err != nil || !ok:
		return store.Subscription{}, false, err
	case found.Unreadable != "":
		return store.Subscription{}, false, fmt.Errorf("subscription %s: %s", id, found.Unreadable)
	}
	return stored(&found), true, nil
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.Remove(ctx, id, generation)
}

// Subscriptions implements [store.SubscriptionStore]. It leaves out unreadable subscriptions. The ledger lists without
// secrets, so each subscription is read by itself.
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (subs []store.Subscription, err error) {
	for len(subs) < limit {
		page, next, err := s.List(ctx, ledger.Selection{}, after, limit-len(subs))
		if err != nil {
			return nil, err
		}
		for _, x := range page {
			full, ok, err := s.State(ctx, x.ID)
			if err != nil {
				return nil, err
			}
			if ok && full.Unreadable == "" {
				subs = append(subs, stored(&full))
			}
		}
		if after = next; after == "" {
			break
		}
	}
	return subs, nil
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	return s.Count(ctx, principal)
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.AdmitVerification(ctx, v, domain.Quota{})
}
