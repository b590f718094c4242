// Package clientstore defines the interfaces through which a client stores the state that must survive its process.
// These are cursors ([CursorStore]), the callbacks and received bodies of its webhook receiver ([CallbackStore],
// [ReceivedStore]) and dead letters ([DeadLetterStore]).
//
// The packages memory, file and sqlite implement them, and postgres all but dead letters; storetest is a test suite
// that every implementation passes. Start with [CursorStore].
package clientstore

import (
	"context"
	"encoding/json"
)

// Saved is the stored state of one subscription of a client. See CLI-6.
type Saved struct {
	// Cursor is the committed cursor; never empty.
	Cursor string `json:"cursor"`
	// EventIDs are the most recent eventIds, the oldest first, for deduplication after a restart.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CursorStore stores clients' cursors by key. Implementations are safe for concurrent use. Save is atomic: after a
// crash, Load returns either the old value or the new one. See CLI-6.
type CursorStore interface {
	// Load returns the value under key and whether it exists.
	Load(ctx context.Context, key string) (Saved, bool, error)
	// Save replaces the value under key.
	Save(ctx context.Context, key string, s Saved) error
	// Delete removes the value under key. An unknown key is not an error.
	Delete(ctx context.Context, key string) error
}

// A Received is a webhook body that a client has accepted and its application has not yet processed. See CLI-5.
type Received struct {
	// Sequence is assigned by PutReceived; it increases per key.
	Sequence uint64
	// EventID identifies the body. For an occurrence it is the eventId, any text of up to 256 bytes; with the prefix
	// "event " if the eventId begins with "envelope " or "event ". For an envelope it is "envelope " and the
	// webhook-id.
	EventID string
	// Body is the signed body.
	Body json.RawMessage
}

// A ReceivedStore stores webhook bodies from the answer to the server until the application has processed them. An
// answer of 2xx is therefore a promise. See CLI-5, CLI-6.
type ReceivedStore interface {
	// PutReceived stores r under key and returns true, or returns false if its EventID already exists.
	PutReceived(ctx context.Context, key string, r Received) (fresh bool, err error)
	// Received returns up to limit bodies with a sequence above after, in order.
	Received(ctx context.Context, key string, after uint64, limit int) ([]Received, error)
	// TakeReceived removes the bodies up to sequence upTo and saves the cursor under the same key, atomically.
	TakeReceived(ctx context.Context, key string, upTo uint64, s Saved) error
}
