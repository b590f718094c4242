package clientstore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// ErrDeadLettersFull is returned by PutDeadLetter if the subscription already has the maximum number of dead letters.
var ErrDeadLettersFull = errors.New("store: the subscription has the maximum number of dead letters")

// A DeadLetter is an event that a consumer has stopped retrying. See CON-3.
type DeadLetter struct {
	// Sequence is assigned by PutDeadLetter. It increases across all subscriptions and is never reused.
	Sequence uint64 `json:"sequence"`
	// Key is the key of the subscription's cursor.
	Key string `json:"key"`
	// Event is the event type's name.
	Event string `json:"event"`
	// EventID is the event's id, or "" if the id cannot be read.
	EventID string `json:"eventId,omitempty"`
	// Timestamp is when the event happened, or zero if that cannot be read.
	Timestamp events.Time `json:"timestamp,omitzero"`
	// Data is the payload as received or, if the event cannot be decoded, the whole event. Meta is its _meta.
	Data json.RawMessage `json:"data,omitempty"`
	Meta json.RawMessage `json:"meta,omitempty"`
	// Error describes why the last attempt failed.
	Error string `json:"error"`
	// Tries is the number of times the handler was called.
	Tries int `json:"tries"`
	// First is when the first attempt began, and Last is when the last attempt ended.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Due reports whether the event will be retried.
	Due bool `json:"due,omitempty"`
}

// A DeadLetterStore stores dead letters until they are handled or deleted. Implementations are safe for concurrent use,
// and each method is atomic. See CON-4.
type DeadLetterStore interface {
	// PutDeadLetter stores d. If d has a Sequence, it replaces that letter, or does nothing if the letter was deleted.
	// Otherwise, it replaces the letter with the same Key and EventID, or adds a letter if no such letter exists or
	// EventID is empty. If Key already has limit letters, it adds nothing and returns [ErrDeadLettersFull].
	PutDeadLetter(ctx context.Context, d DeadLetter, limit int) error
	// DeadLetters returns up to limit letters of all keys with sequence numbers greater than after, in order.
	DeadLetters(ctx context.Context, after uint64, limit int) ([]DeadLetter, error)
	// DueDeadLetters is like DeadLetters, but returns only the due letters for key.
	DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]DeadLetter, error)
	// RetryDeadLetter marks a letter as due and reports whether it exists.
	RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error)
	// DeleteDeadLetter removes a letter and reports whether it existed.
	DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error)
}

// A ConsumerStore stores the state that a consumer needs after a restart. Packages memory, file and sqlite implement
// it.
type ConsumerStore interface {
	CursorStore
	DeadLetterStore
}

// lettersPage is the number of dead letters read per call.
const lettersPage = 64

// DeadLetters iterates over the dead letters in s, oldest first, and stops after an error. To pass a letter to its
// handler again, call s.RetryDeadLetter. The retry happens at the next client.Consume, or within seconds if one is
// running on the same store. To drop a letter, call s.DeleteDeadLetter. See CON-4.
func DeadLetters(ctx context.Context, s DeadLetterStore) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for after := uint64(0); ; {
			page, err := s.DeadLetters(ctx, after, lettersPage)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, d := range page {
				if after = d.Sequence; !yield(d, nil) {
					return
				}
			}
		}
	}
}
