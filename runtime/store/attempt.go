package store

import (
	"context"
	"time"
)

// An Attempt is what came of one request that carried an occurrence to an endpoint. It holds no
// body, no header and nothing that the endpoint said but its status.
type Attempt struct {
	// EventID and Event are the occurrence's id, which is the webhook-id of all its attempts, and its
	// event type.
	EventID string `json:"eventId"`
	Event   string `json:"event"`
	// Position is where the occurrence is in its log; of a feed it means something in one process only.
	Position Position `json:"position"`
	// Number counts the attempts at the occurrence from 1.
	Number int `json:"number"`
	// At is when the request was signed, Took how long until its answer or failure.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Category is that of the failure; "" when the endpoint accepted the occurrence. See ERR-1.
	Category string `json:"category,omitempty"`
	// Status is the HTTP status, 0 when there was no answer.
	Status int `json:"status,omitempty"`
	// NextAt is when the next attempt is due; zero when none follows.
	NextAt time.Time `json:"nextAt,omitzero"`
}

// AttemptBounds say how many attempts are kept, and how long.
type AttemptBounds struct {
	// PerSubscription is how many of one subscription are kept, the latest ones.
	PerSubscription int
	// MaxAge is how long one is kept.
	MaxAge time.Duration
	// Total is how many are kept in all; the oldest go first.
	Total int
}

// An AttemptStore is a [SubscriptionStore] that keeps attempts: SaveProgress stores those of its
// updates in the same step, so that they are fenced as progress is and a crash loses those that
// were not written yet. They go with the subscription's record.
//
// A store may keep as one what it was given in one update: then the oldest of a subscription go
// together, and it has up to that many more than it was asked to keep.
type AttemptStore interface {
	// Attempts returns up to limit attempts of a subscription, the latest first; of an unknown one
	// none.
	Attempts(ctx context.Context, subscription string, limit int) ([]Attempt, error)
	// TrimAttempts deletes what is beyond the bounds at now, in one step of up to limit deletions,
	// and tells whether there may be more.
	TrimAttempts(ctx context.Context, b AttemptBounds, now time.Time, limit int) (more bool, err error)
}
