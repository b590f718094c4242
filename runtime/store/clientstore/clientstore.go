// Package clientstore defines interfaces for client state that must survive a restart. This includes cursors
// ([CursorStore]), the callbacks and received bodies of a webhook receiver ([CallbackStore], [ReceivedStore]), and dead
// letters ([DeadLetterStore]).
//
// The packages clientmemory, file and sqlite implement them, and postgres implements all except [DeadLetterStore]. Package
// storetest is a test suite for implementations. Start with [CursorStore].
package clientstore

import (
	"context"
	"encoding/json"
)

// Saved is the stored state of one client subscription. See CLI-6.
type Saved struct {
	// Cursor is the committed cursor. It is never empty.
	Cursor string `json:"cursor"`
	// EventIDs are the most recent eventIds, oldest first, for deduplication after a restart.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CursorStore stores client cursors by key. Implementations are safe for concurrent use. Save is atomic: after a
// crash, Load returns either the old value or the new one. See CLI-6.
type CursorStore interface {
	// Load returns the value under key and whether it exists.
	Load(ctx context.Context, key string) (Saved, bool, error)
	// Save replaces the value under key.
	Save(ctx context.Context, key string, s Saved) error
	// Delete removes the value under key. An unknown key is not an error.
	Delete(ctx context.Context, key string) error
}

// Received is a webhook body that the client has accepted but the application has not yet processed. See CLI-5.
type Received struct {
	// Sequence is assigned by PutReceived and increases within each key.
	Sequence uint64
	// EventID identifies the body. For an occurrence, it is the eventId, a string of up to 256 bytes. If the eventId
	// begins with "envelope " or "event ", the prefix "event " is added. For an envelope, it is "envelope " followed by
	// the webhook-id.
	EventID string
	// Body is the signed body.
	Body json.RawMessage
}

// A ReceivedStore stores accepted webhook bodies until the application has processed them. The client can therefore
// respond with 2xx before the application has processed a body. See CLI-5, CLI-6.
type ReceivedStore interface {
	// PutReceived stores r under key and returns true, or returns false if the EventID already exists.
	PutReceived(ctx context.Context, key string, r Received) (fresh bool, err error)
	// Received returns up to limit bodies with sequence numbers greater than after, in order.
	Received(ctx context.Context, key string, after uint64, limit int) ([]Received, error)
	// TakeReceived atomically removes the bodies up to sequence upTo and saves the cursor under the same key.
	TakeReceived(ctx context.Context, key string, upTo uint64, s Saved) error
}
