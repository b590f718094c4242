package engine

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Listed is a subscription in a list for operators, without Secrets and Progress.
type Listed struct {
	store.Subscription
	// Unreadable says why secrets or progress cannot be read; "" if they can. No replica delivers for an unreadable
	// subscription.
	Unreadable string
}

// Values of [Listed.Unreadable].
const (
	UnreadableKey     = "its secrets cannot be decrypted with the keys of the server"
	UnreadableDamaged = "its record in the store is damaged"
)

// A Lister is a [store.SubscriptionStore] that can list subscriptions at a lower cost than reading them. It includes
// unreadable ones, so that operators can query all of them.
type Lister interface {
	// ListSubscriptions lists the same subscriptions as Subscriptions, and the unreadable ones. For an id for which
	// known returns true, it sets only the ID.
	ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) ([]Listed, error)
	// ListSubscription returns the subscription with an id, and whether it exists.
	ListSubscription(ctx context.Context, id string) (Listed, bool, error)
}

// ListedOf returns the listing of a subscription that was read with err. It keeps err unless the record is
// unreadable; damaged is the store's error for damaged data.
func ListedOf(sub store.Subscription, err, damaged error) (Listed, error) {
	sub.Secrets, sub.Progress = nil, store.Progress{}
	l := Listed{Subscription: sub, Unreadable: Unreadable(err, damaged)}
	if l.Unreadable != "" {
		err = nil
	}
	return l, err
}

// Unreadable returns why a record that was read with err is unreadable; "" if the failure may be temporary.
func Unreadable(err, damaged error) string {
	switch {
	case errors.Is(err, sealed.ErrKey):
		return UnreadableKey
	case errors.Is(err, damaged), errors.Is(err, sealed.ErrForm):
		return UnreadableDamaged
	}
	return ""
}

// List lists subscriptions as a [Lister] does. If the store is not a Lister, List reads the subscriptions.
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

// ListOne returns one subscription in the form of [List].
func ListOne(ctx context.Context, s store.SubscriptionStore, id string) (l Listed, ok bool, err error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscription(ctx, id)
	}
	l.Subscription, ok, err = s.Subscription(ctx, id)
	return l, ok, err
}
