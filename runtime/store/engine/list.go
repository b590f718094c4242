package engine

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Lister is a [store.SubscriptionStore] that lists subscriptions for less than reading them costs, so that an operator may
// ask for something about all of them.
type Lister interface {
	// ListSubscriptions returns what Subscriptions does, without Secrets and Progress, and of those that known reports true
	// for the ID alone. What is left out is not decrypted or decoded: one of which it cannot be read is listed.
	ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) ([]store.Subscription, error)
}

// List lists subscriptions as a [Lister] does. Those of a store that is none it reads.
func List(ctx context.Context, s store.SubscriptionStore, after string, limit int, known func(id string) bool) ([]store.Subscription, error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscriptions(ctx, after, limit, known)
	}
	return s.Subscriptions(ctx, after, limit)
}
