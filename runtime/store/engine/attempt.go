package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// AttemptBounds limits the attempts that a store keeps.
type AttemptBounds struct {
	// PerSubscription is the number of latest attempts to keep per subscription.
	PerSubscription int
	// MaxAge is the age after which an attempt is deleted.
	MaxAge time.Duration
	// Total is the number of attempts to keep in all; the oldest are deleted first.
	Total int
}

// Attempts is implemented by a [store.SubscriptionStore] that keeps delivery attempts. They are deleted with the
// subscription.
//
// A store may keep the attempts of one update as a unit. Then it deletes them together, and a subscription can have
// that many more than the bound.
type Attempts interface {
	// SaveAttempts is like SaveProgress and stores attempts in the same transaction. They are therefore fenced like
	// progress, and a crash loses those not yet written. The argument made has an element per update: the attempts
	// since the previous update, the oldest first.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// Attempts returns up to limit attempts of a subscription, the latest first. It returns none for an unknown
	// subscription.
	Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error)
	// TrimAttempts deletes up to limit attempts that exceed the bounds at the time now. It reports whether there may
	// be more.
	TrimAttempts(ctx context.Context, b AttemptBounds, now time.Time, limit int) (more bool, err error)
}
