// Package clientstore holds the interfaces behind which a client keeps what has to outlast its process: cursors
// ([CursorStore]), what its webhook receiver knows and has taken ([CallbackStore], [ReceivedStore]) and the events that
// a consumer gave up ([DeadLetterStore]).
//
// The packages memory, file and sqlite implement them, postgres the cursors; storetest is the suite that every
// implementation passes. Start with [CursorStore].
package clientstore

import (
	"context"
	"encoding/json"
)

// Saved is what a client keeps of one subscription. See CLI-6.
type Saved struct {
	// Cursor is the committed cursor; never empty.
	Cursor string `json:"cursor"`
	// EventIDs are the most recent eventIds, oldest first, for deduplication over a restart.
	EventIDs []string `json:"eventIds,omitempty"`
}

// A CursorStore keeps clients' cursors by key. Implementations are safe for concurrent use, and
// a Save is atomic: after a crash Load gives the old value or the new one, whole. See CLI-6.
type CursorStore interface {
	// Load returns what was saved under key and whether anything was.
	Load(ctx context.Context, key string) (Saved, bool, error)
	// Save replaces what is kept under key.
	Save(ctx context.Context, key string, s Saved) error
	// Delete forgets key; an unknown key is no error.
	Delete(ctx context.Context, key string) error
}

// A Received is one webhook body that a client has taken but its application has not. See
// CLI-5.
type Received struct {
	// Sequence is assigned by PutReceived, ascending per key.
	Sequence uint64
	// EventID is the eventId of an occurrence, any text of up to 256 bytes; of an envelope, "envelope " and
	// its webhook-id; of an occurrence whose eventId begins with "envelope " or "event ", "event " and that.
	EventID string
	// Body is the body as it was signed.
	Body json.RawMessage
}

// A ReceivedStore keeps webhook bodies between the answer to the server and the application, so that an answer of
// 2xx is a promise. See CLI-5, CLI-6.
type ReceivedStore interface {
	// PutReceived stores r under key and returns true, or returns false when its EventID is there
	// already.
	PutReceived(ctx context.Context, key string, r Received) (fresh bool, err error)
	// Received returns up to limit bodies with a sequence above after, in order.
	Received(ctx context.Context, key string, after uint64, limit int) ([]Received, error)
	// TakeReceived forgets the bodies up to sequence upTo and saves the cursor under the same key,
	// in one step.
	TakeReceived(ctx context.Context, key string, upTo uint64, s Saved) error
}
