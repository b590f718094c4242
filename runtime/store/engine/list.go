package engine

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Listed is a subscription in an operator's list, without Secrets.
type Listed struct {
	store.Subscription
	// Unreadable is the reason why the secrets or progress cannot be read, or "" if they are readable. No replica
	// delivers to an unreadable subscription.
	Unreadable string
}

// Values of [Listed.Unreadable].
const (
	UnreadableKey     = "its secrets cannot be decrypted with the keys of the server"
	UnreadableDamaged = "its record in the store is damaged"
)

// A Lister is a [store.SubscriptionStore] that can list subscriptions without reading them completely. Its lists
// include unreadable subscriptions, so operators can see all of them.
type Lister interface {
	// ListSubscriptions lists the same subscriptions as Subscriptions, plus the unreadable ones. If failing is set, it
	// omits subscriptions whose last attempt succeeded and that are not suspended, unless their key is missing.
	ListSubscriptions(ctx context.Context, after string, limit int, failing bool) ([]Listed, error)
	// ListSubscription returns the subscription with the given id, and whether it exists.
	ListSubscription(ctx context.Context, id string) (Listed, bool, error)
}

// ListedOf converts a subscription and the error from reading it to a Listed. It returns err unless the error means
// that the record is unreadable. The argument damaged is the store's error for damaged data.
func ListedOf(sub store.Subscription, err, damaged error) (Listed, error) {
	sub.Secrets = nil
	l := Listed{Subscription: sub, Unreadable: Unreadable(err, damaged)}
	if l.Unreadable != "" {
		err = nil
	}
	return l, err
}

// Unreadable returns the reason why a record is unreadable, given the error from reading it. It returns "" if the
// failure may be temporary.
func Unreadable(err, damaged error) string {
	switch {
	case errors.Is(err, sealed.ErrKey):
		return UnreadableKey
	case errors.Is(err, damaged), errors.Is(err, sealed.ErrForm):
		return UnreadableDamaged
	}
	return ""
}

// List lists subscriptions. If the store is not a [Lister], List reads all subscriptions.
func List(ctx context.Context, s store.SubscriptionStore, after string, limit int, failing bool) ([]Listed, error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscriptions(ctx, after, limit, failing)
	}
	page, err := s.Subscriptions(ctx, after, limit)
	listed := make([]Listed, len(page))
	for i := range page {
		listed[i].Subscription = page[i]
	}
	return listed, err
}

// ListOne is like [List], but for a single subscription.
func ListOne(ctx context.Context, s store.SubscriptionStore, id string) (l Listed, ok bool, err error) {
	if l, ok := s.(Lister); ok {
		return l.ListSubscription(ctx, id)
	}
	l.Subscription, ok, err = s.Subscription(ctx, id)
	return l, ok, err
}
