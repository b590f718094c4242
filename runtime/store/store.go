// Package store defines the interfaces through which the runtime keeps its state. These are the log of an event type
// ([EventLog], opened from a [Store]) and webhook subscriptions ([SubscriptionStore]). Package clientstore defines
// those of clients.
//
// The packages memory, file, sqlite and postgres implement them; storetest is a test suite that every implementation
// passes. Package engine defines what these stores additionally offer to the runtime, such as leases of processes
// that share a store. Start with [EventLog]: replay and the delivery guarantees depend on its rules for positions.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

var (
	// ErrClosed is returned by a log or store after the store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrUncertain is matched by errors of writes whose answer was lost: the write may have succeeded. AppendOnce
	// with the same id finds out (REP-22).
	ErrUncertain = errors.New("store: no response, the write may have succeeded")
)

// A DamagedError reports that an entry of a log is permanently unreadable: it was changed or is missing. A fault that
// may be temporary, such as a failed read of the disk, is a different error.
type DamagedError struct {
	Position Position
	Err      error // describes the fault, and names the position and the log
}

// Error implements the error interface.
func (e *DamagedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// A Position is the place of an entry in its log. The first entry has position 1; positions have no holes. Position 0
// is the place before the first entry.
type Position uint64

// An Entry is an occurrence in a log. Its slices never change after Append.
type Entry struct {
	// Position is assigned by Append.
	Position Position
	// EventID is the occurrence's id. See OCC-2.
	EventID string
	// Timestamp is when the occurrence happened; its text is preserved.
	Timestamp events.Time
	// Data is the payload and Meta the author's _meta, both compact JSON; Meta may be nil.
	Data, Meta json.RawMessage
	// Targets are the subscription ids for which the occurrence is meant, in any order; nil means all subscriptions.
	// See SRV-2.
	Targets []string
	// Cursor is the cursor after the entry, if it cannot be derived from the position. Entries found by a check have
	// the cursor of their upstream. Otherwise it is empty. See CUR-1.
	Cursor string
}

// maxProven bounds the data that enter a proof, so that a proof is cheap for every payload.
const maxProven = 256

// Proof returns a number that distinguishes the entry from another one at the same position. Such an entry can exist
// after a restore of the log from a backup. The number consists of the first four bytes of the SHA-256 of EventID,
// Timestamp and the first 256 bytes of Data, separated by zero bytes. It is never 0. See CUR-8.
func (e *Entry) Proof() uint32 {
	b := make([]byte, 0, 512)
	b = append(append(b, e.EventID...), 0)
	b = append(append(b, e.Timestamp.String()...), 0)
	b = append(b, e.Data[:min(len(e.Data), maxProven)]...)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// A Batch is the result of Read.
type Batch struct {
	// Entries are in order and without holes. Callers must not change them.
	Entries []Entry
	// Gap reports that entries after the requested position are no longer retained. Entries then begin at the oldest
	// retained entry.
	Gap bool
	// Oldest and Head are the bounds at the time of the read.
	Oldest, Head Position
}

// An EventLog stores the occurrences of one event type in order of their positions. Implementations are safe for
// concurrent use.
type EventLog interface {
	// Append assigns the next position, stores the entry and returns the position. An entry becomes visible in the
	// same step: no reader ever sees a position before all lower ones. (Trap: a cursor created outside that step
	// skips entries.) A durable log returns only after the entry is durable; it may make several concurrent appends
	// durable together. If ctx ends before the entry is stored, Append returns its error and the entry does not
	// exist.
	Append(ctx context.Context, e Entry) (Position, error)
	// AppendOnce is like Append for an occurrence that its author may emit several times. It appends nothing if an entry with
	// e's EventID and e's Targets (as a set: [Audience]) is retained after position above, however it was appended.
	// Then fresh is false, the position is that of the existing entry, and the error is that of [Repeats] for the
	// two. If there are several such entries, created by Append, the last one counts. Lookup and append are atomic:
	// of concurrent calls with the same id, one appends. The cost does not grow with the log. The result is as
	// durable as an append: fresh is false only if the existing entry is durable. See OCC-5.
	AppendOnce(ctx context.Context, e Entry, above Position) (p Position, fresh bool, err error)
	// Read returns up to limit entries after the given position, and at least one. It returns fewer if they are large
	// or a damaged entry follows. If the first of them is damaged, the error matches [*DamagedError]. After the head,
	// it returns an empty batch with the bounds.
	Read(ctx context.Context, after Position, limit int) (Batch, error)
	// Bounds returns the first retained position (head+1 if nothing is retained) and the last visible one. A store
	// that must query the first position may fail; it honors ctx.
	Bounds(ctx context.Context) (oldest, head Position, err error)
	// Proof returns the [Entry.Proof] of the entry at p. The log knows it for every retained entry and for the last
	// evicted one. It returns 0 if the proof is unknown: for position 0, positions beyond the head, and entries that
	// were evicted earlier or before the log remembered proofs. For the latest entries the answer comes from memory.
	// See CUR-8.
	Proof(ctx context.Context, p Position) (uint32, error)
	// Epoch identifies this life of the log. It is random for a log in memory and stored with a durable one. It is
	// never 0. See CUR-1.
	Epoch() uint64
}

// LogOptions limit the retention of a log and observe its appends.
type LogOptions struct {
	// MaxAge evicts entries that were appended longer ago; 0 means no limit.
	MaxAge time.Duration
	// MaxCount evicts the oldest entries beyond that number; 0 means no limit.
	MaxCount int
	// MaxBytes evicts the oldest entries while all entries together take more memory; the last entry stays. 0 means
	// no limit. It is for stores in memory: a durable store rejects it.
	MaxBytes int
	// Appended, if not nil, is called with newly visible entries in order of position. The call happens inside the
	// step that makes them visible, and before their Append returns. A group commit may pass several entries.
	// Appended must not block and must not call the log.
	Appended func([]Entry)
}

// A Store opens logs by name.
type Store interface {
	// OpenLog opens the log with the given name and creates it if it does not exist. Opening it again returns the
	// same entries, positions and epoch; the options of the last call apply.
	OpenLog(ctx context.Context, name string, o LogOptions) (EventLog, error)
	// Durable reports whether entries survive the process.
	Durable() bool
	// Close closes the store; later calls return ErrClosed.
	Close() error
}

// A Pinger is a [Store] with a health check. All stores of this module implement it.
type Pinger interface {
	// Ping returns nil if the store can be read and written now, [ErrClosed] after Close, or the fault. It writes
	// nothing and honors ctx.
	Ping(ctx context.Context) error
}
