package engine

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Listed is a subscription as an operator sees it among others: without Secrets and Progress.
type Listed struct {
	store.Subscription
	// Unreadable is why those cannot be read, for an operator; "" where they can. Nobody takes up such a subscription.
	Unreadable string
}

// What [Listed.Unreadable] says.
const (
	UnreadableKey     = "its secrets cannot be decrypted with the keys of the server"
	UnreadableDamaged = "its record in the store is damaged"
)

// A Lister is a [store.SubscriptionStore] that lists subscriptions for less than reading them costs, so that an operator may
// ask for something about all of them, and with those that cannot be read.
type Lister interface {
	// ListSubscriptions returns what Subscriptions does, and of those that known reports true for the ID alone, of which
	// nothing else is read. Those that cannot be read are among them.
	ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) ([]Listed, error)
	// ListSubscription returns the one of an id, and whether there is one.
	ListSubscription(ctx context.Context, id string) (Listed, bool, error)
}

// ListedOf is the record of a subscription that was read with an error. The error stays where the record cannot be read only
// now; damaged is the store's error of what is not what was written.
func ListedOf(sub store.Subscription, err, damaged error) (Listed, error) {
	sub.Secrets, sub.Progress = nil, store.Progress{}
	l := Listed{Subscription: sub, Unreadable: Unreadable(err, damaged)}
	if l.Unreadable != "" {
		err = nil
	}
	return l, err
}

// Unreadable is why a record that was read with an error cannot be read; "" where it cannot be read only now.
func Unreadable(err, damaged error) string {
	switch {
	case errors.Is(err, sealed.ErrKey):
		return UnreadableKey
	case errors.Is(err, damaged), errors.Is(err, sealed.ErrForm):
		return UnreadableDamaged
	}
	return ""
}

// List lists subscriptions as a [Lister] does. Those of a store that is none it reads.
func List(ctx context.Context, s store.SubscriptionStore, after string, limit int, known func(id string) bool) ([]Listed, error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscriptions(ctx, after, limit, known)
	}
	page, err := s.Subscriptions(ctx, after, limit)
	listed := make([]Listed, len(page))
	for i := range page {
		listed[i].Subscription = page[i]
	}
	return listed, err
}

// ListOne returns one of [List].
func ListOne(ctx context.Context, s store.SubscriptionStore, id string) (l Listed, ok bool, err error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscription(ctx, id)
	}
	l.Subscription, ok, err = s.Subscription(ctx, id)
	return l, ok, err
}
