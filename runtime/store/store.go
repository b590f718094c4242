// Package store defines interfaces for the state of the runtime. A [Store] opens the [EventLog] of an event type, and
// a [SubscriptionStore] stores webhook subscriptions. Package clientstore defines the interfaces for clients.
//
// The packages memory, file, sqlite and postgres implement them. Package storetest is a test suite for implementations.
// Package engine defines further interfaces that these stores implement for the runtime, such as leases for processes
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
	// ErrClosed is returned by the methods of a log or store after the store has been closed.
	ErrClosed = errors.New("store: closed")
	// ErrUncertain is matched by the error of a write that may have succeeded because the response was lost. To find
	// out, call AppendOnce with the same id (REP-22).
	ErrUncertain = errors.New("store: no response, the write may have succeeded")
)

// A DamagedError indicates that a log entry is permanently unreadable because it is missing or was changed. Failures
// that may be temporary, such as disk read errors, are reported as different errors.
type DamagedError struct {
	Position Position
	Err      error // describes the fault, and names the position and the log
}

// Error implements the error interface.
func (e *DamagedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// A Position identifies an entry within its log. Positions start at 1 and are consecutive. Position 0 is before the
// first entry.
type Position uint64

// An Entry is an occurrence in a log. Its slices must not be modified after Append.
type Entry struct {
	// Position is assigned by Append.
	Position Position
	// EventID is the occurrence's id. See OCC-2.
	EventID string
	// Timestamp is when the occurrence happened. Its textual form is preserved.
	Timestamp events.Time
	// Data is the payload, and Meta is the author's _meta. Both are compact JSON, and Meta can be nil.
	Data, Meta json.RawMessage
	// Targets are the ids of the subscriptions that receive the occurrence, in any order; nil means all subscriptions.
	// See SRV-2.
	Targets []string
	// Cursor is the cursor after the entry, or empty if it can be derived from the position. Entries found by a check
	// have the upstream's cursor. See CUR-1.
	Cursor string
}

// maxProven is the maximum number of payload bytes in a proof, so computing a proof is always cheap.
const maxProven = 256

// Proof returns a number that distinguishes the entry from a different entry at the same position. The log can contain
// such an entry after it is restored from a backup. The number consists of the first four bytes of a SHA-256 hash of
// EventID, Timestamp and the first 256 bytes of Data, separated by zero bytes. It is never 0. See CUR-8.
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
	// Entries contains consecutive entries in order. Callers must not modify them.
	Entries []Entry
	// Gap reports whether entries after the requested position are no longer retained. If so, Entries begins at the
	// oldest retained entry.
	Gap bool
	// Oldest and Head are the bounds at the time of the read.
	Oldest, Head Position
}

// An EventLog stores the occurrences of one event type in order of position. Implementations are safe for concurrent
// use.
type EventLog interface {
	// Append assigns the next position, stores the entry and returns the position. An entry becomes visible in the same
	// step: no reader ever sees a position before all lower ones. (A cursor created outside that step would skip
	// entries.) A durable log returns only after the entry is durable; it may commit several concurrent appends
	// together. If ctx is done before the entry is stored, Append returns the context's error and the entry is not
	// stored.
	Append(ctx context.Context, e Entry) (Position, error)
	// AppendOnce is like Append, but for an occurrence that its author may emit several times. It appends nothing if an
	// entry with e's EventID and e's Targets (as a set: [Audience]) is retained after position above, however it was
	// appended. Then fresh is false, the position is that of the existing entry, and the error is that of [Repeats] for
	// the two. If Append created several such entries, AppendOnce uses the last one. Lookup and append are atomic: only
	// one of several concurrent calls with the same id appends. The cost does not grow with the log. The result is as
	// durable as an append: fresh is false only if the existing entry is durable. See OCC-5.
	AppendOnce(ctx context.Context, e Entry, above Position) (p Position, fresh bool, err error)
	// Read returns at least one and up to limit entries after the given position. It returns fewer than limit if the
	// entries are large or a damaged entry follows. If the first entry is damaged, the error matches [*DamagedError].
	// If no entry follows, Read returns an empty batch with the bounds.
	Read(ctx context.Context, after Position, limit int) (Batch, error)
	// Bounds returns the first retained position (head+1 if nothing is retained) and the last visible position. It can
	// fail if the store must query the first position; the query honors ctx.
	Bounds(ctx context.Context) (oldest, head Position, err error)
	// Proof returns the [Entry.Proof] of the entry at p. The proof is known for every retained entry and for the last
	// evicted one. Proof returns 0 if it is unknown: for position 0, positions beyond the head, and entries that were
	// evicted earlier or before the log stored proofs. Proofs of the latest entries are cached in memory. See CUR-8.
	Proof(ctx context.Context, p Position) (uint32, error)
	// Epoch identifies this incarnation of the log. An in-memory log has a random epoch; a durable log stores its
	// epoch. It is never 0. See CUR-1.
	Epoch() uint64
}

// LogOptions configure the retention of a log and a callback for appended entries.
type LogOptions struct {
	// MaxAge is how long an entry is retained after it is appended; 0 means no limit.
	MaxAge time.Duration
	// MaxCount is the maximum number of retained entries; 0 means no limit.
	MaxCount int
	// MaxBytes is the maximum total memory in bytes of the retained entries; 0 means no limit. The last entry is always
	// retained. Only in-memory stores support MaxBytes. Durable stores reject it.
	MaxBytes int
	// Appended, if not nil, is called with newly visible entries in order of position. The log makes this call in the
	// same step in which the entries become visible, before Append returns. A group commit can pass several entries.
	// Appended must not block and must not call the log.
	Appended func([]Entry)
}

// A Store opens logs by name.
type Store interface {
	// OpenLog opens the log with the given name and creates it if it does not exist. A log that is opened again has the
	// same entries, positions and epoch; the options of the last call apply.
	OpenLog(ctx context.Context, name string, o LogOptions) (EventLog, error)
	// Durable reports whether entries survive the process.
	Durable() bool
	// Close closes the store; later calls return ErrClosed.
	Close() error
}

// A Pinger is a [Store] with a health check. All stores of this module implement it.
type Pinger interface {
	// Ping returns nil if the store is currently readable and writable. It returns [ErrClosed] after Close, and
	// otherwise the reason for the failure. It writes nothing and honors ctx.
	Ping(ctx context.Context) error
}
