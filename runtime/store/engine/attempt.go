package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// AttemptBounds limits the delivery attempts that a store retains.
type AttemptBounds struct {
	// PerSubscription is the maximum number of attempts per subscription; the oldest are deleted first.
	PerSubscription int
	// MaxAge is the age after which an attempt is deleted.
	MaxAge time.Duration
	// Total is the maximum number of attempts across all subscriptions; the oldest are deleted first.
	Total int
}

// Attempts is the interface of a [store.SubscriptionStore] that records delivery attempts. Deleting a subscription
// deletes its attempts.
//
// An implementation may store the attempts of an update as a unit and delete them together. A subscription can then
// exceed its bound by up to one update's attempts.
type Attempts interface {
	// SaveAttempts is like SaveProgress, but also stores attempts in the same transaction. Attempts are therefore
	// fenced like progress, and a crash loses those not yet written. For each update, made contains the attempts since
	// the previous update, oldest first.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// Attempts returns up to limit attempts of a subscription, latest first. It returns no attempts for an unknown
	// subscription.
	Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error)
	// TrimAttempts deletes up to limit attempts that exceed the bounds at the time now. It reports whether more may
	// remain.
	TrimAttempts(ctx context.Context, b AttemptBounds, now time.Time, limit int) (more bool, err error)
}
