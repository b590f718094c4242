package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// AttemptBounds say how many attempts are kept, and how long.
type AttemptBounds struct {
	// PerSubscription is how many of one subscription are kept, the latest ones.
	PerSubscription int
	// MaxAge is how long one is kept.
	MaxAge time.Duration
	// Total is how many are kept in all; the oldest go first.
	Total int
}

// Attempts is what a [store.SubscriptionStore] that keeps attempts offers. They go with the subscription's record.
//
// A store may keep as one what it was given in one update: then the oldest of a subscription go
// together, and it has up to that many more than it was asked to keep.
type Attempts interface {
	// SaveAttempts is SaveProgress that stores attempts in the same step, so that they are fenced as progress is and
	// a crash loses those that were not written yet. made has an element for each update: the attempts since the one
	// before, the first one first.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// Attempts returns up to limit attempts of a subscription, the latest first; of an unknown one
	// none.
	Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error)
	// TrimAttempts deletes what is beyond the bounds at now, in one step of up to limit deletions,
	// and tells whether there may be more.
	TrimAttempts(ctx context.Context, b AttemptBounds, now time.Time, limit int) (more bool, err error)
}
