package clientstore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// ErrDeadLettersFull is returned by PutDeadLetter when a subscription has as many dead letters as it may.
var ErrDeadLettersFull = errors.New("store: the subscription has the maximum number of dead letters")

// A DeadLetter is an event that a consumer gave up. See CON-3.
type DeadLetter struct {
	// Sequence is assigned by PutDeadLetter, ascending over all subscriptions and never used again.
	Sequence uint64 `json:"sequence"`
	// Key is that of the subscription's cursor.
	Key string `json:"key"`
	// Event is the event type's name.
	Event string `json:"event"`
	// EventID is the event's id, "" where it has none that can be read.
	EventID string `json:"eventId,omitempty"`
	// Timestamp is when the event happened; zero where that cannot be read.
	Timestamp events.Time `json:"timestamp,omitzero"`
	// Data is the payload as received, or, of an event that cannot be read at all, the event. Meta is its _meta.
	Data json.RawMessage `json:"data,omitempty"`
	Meta json.RawMessage `json:"meta,omitempty"`
	// Error is why the last try failed.
	Error string `json:"error"`
	// Tries is how often the handler was called.
	Tries int `json:"tries"`
	// First and Last are when the first try began and the last one ended.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Due tells that the event is to be handled again.
	Due bool `json:"due,omitempty"`
}

// A DeadLetterStore keeps dead letters until they are handled after all, or dropped by somebody who has looked at
// them. Implementations are safe for concurrent use, and each method is one atomic step. See CON-4.
type DeadLetterStore interface {
	// PutDeadLetter keeps d. With a Sequence it replaces that letter, and does nothing when the letter has been
	// deleted. Without one it replaces the letter with the same Key and EventID, unless EventID is empty, or adds a
	// letter; where Key has limit letters already, it keeps nothing and returns [ErrDeadLettersFull].
	PutDeadLetter(ctx context.Context, d DeadLetter, limit int) error
	// DeadLetters returns up to limit letters of all keys with a sequence above after, in order.
	DeadLetters(ctx context.Context, after uint64, limit int) ([]DeadLetter, error)
	// DueDeadLetters is DeadLetters for the letters of key that are due.
	DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]DeadLetter, error)
	// RetryDeadLetter makes a letter due and reports whether there is one with that sequence.
	RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error)
	// DeleteDeadLetter forgets a letter and reports whether there was one with that sequence.
	DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error)
}

// A ConsumerStore keeps what a consumer needs over a restart: those of packages memory, file and sqlite do.
type ConsumerStore interface {
	CursorStore
	DeadLetterStore
}

// lettersPage is how many dead letters are read at once.
const lettersPage = 64

// DeadLetters iterates over the dead letters in s, the oldest first, and ends after an error. s.RetryDeadLetter hands one
// to its handler again, at the next client.Consume or, in one that runs on the same store, within seconds;
// s.DeleteDeadLetter drops it. See CON-4.
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
