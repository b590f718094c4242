// Package store holds the interfaces behind which the runtime keeps its state: the log of an
// event type ([EventLog], opened from a [Store]) and webhook subscriptions ([SubscriptionStore]). What clients keep is
// in package clientstore.
//
// The packages memory, file, sqlite and postgres below implement them; storetest is the one suite that
// every implementation passes. What these stores offer to the runtime beyond it, such as leases of processes
// that share one, is in package engine. Start with [EventLog]: its rules about positions are what replay and
// the delivery guarantees rest on.
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
	// ErrClosed is returned by a log or store after its store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrUncertain is matched by errors of writes whose answer was lost: what was written may stand.
	// AppendOnce under the same id tells (REP-22).
	ErrUncertain = errors.New("store: no response, the write may have succeeded")
)

// A Position is the place of an entry in its log: 1 for the first entry, then without holes. 0 is
// the place before the first entry.
type Position uint64

// An Entry is one occurrence as a log keeps it. Its slices are never changed after Append.
type Entry struct {
	// Position is assigned by Append.
	Position Position
	// EventID is the occurrence's id. See OCC-2.
	EventID string
	// Timestamp is when it happened; its text is kept as it was given.
	Timestamp events.Time
	// Data is the payload and Meta the author's _meta, both compact JSON; Meta may be nil.
	Data, Meta json.RawMessage
	// Targets are the subscription ids that the occurrence is for, in any order; nil means all.
	// See SRV-2.
	Targets []string
	// Cursor is the cursor after the entry where it does not follow from the position: entries
	// that a check found carry their upstream's. Empty otherwise. See CUR-1.
	Cursor string
}

// maxProven bounds the data that a proof is made of, so that it costs little whatever the payload.
const maxProven = 256

// Proof returns a number by which a cursor tells the entry from another one at the same position, as there may be
// after an older copy of a log was restored: the first four bytes of the SHA-256 of EventID, Timestamp and the
// first 256 bytes of Data, with a zero byte between them. It is never 0. See CUR-8.
func (e *Entry) Proof() uint32 {
	b := make([]byte, 0, 512)
	b = append(append(b, e.EventID...), 0)
	b = append(append(b, e.Timestamp.String()...), 0)
	b = append(b, e.Data[:min(len(e.Data), maxProven)]...)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// A Batch is what Read found.
type Batch struct {
	// Entries are in order and without holes. Callers must not change them.
	Entries []Entry
	// Gap tells that entries after the asked position are no longer retained; Entries then begin
	// at the oldest retained one.
	Gap bool
	// Oldest and Head are the bounds at the time of the read.
	Oldest, Head Position
}

// An EventLog keeps the occurrences of one event type in the order of their positions.
// Implementations are safe for concurrent use.
type EventLog interface {
	// Append assigns the next position, stores the entry and returns the position. Position and
	// visibility are one step: no reader ever sees a position before all lower ones (trap: a cursor
	// minted outside that step skips entries). A durable log returns only after the entry is
	// durable; it may make several concurrent appends durable together. When ctx is done before the
	// entry is stored, Append returns its error and the entry does not exist.
	Append(ctx context.Context, e Entry) (Position, error)
	// AppendOnce is Append for an occurrence that its author may emit again. When an entry with e's
	// EventID for e's Targets (a set: [Audience]) is retained after position above, however it was
	// appended, nothing is appended: fresh is false, the position is that entry's, and the error is
	// what [Repeats] says of the two. Of several such entries, as Append leaves them, the last
	// counts. Looking and appending are one step: of concurrent calls with one id one appends. Its
	// cost does not grow with the log. What it reports is as durable as an append: fresh is false
	// only when the entry that stands is. See OCC-5.
	AppendOnce(ctx context.Context, e Entry, above Position) (p Position, fresh bool, err error)
	// Read returns up to limit entries after the given position: fewer where they are large, at least
	// one. After the head it returns an empty batch with the bounds.
	Read(ctx context.Context, after Position, limit int) (Batch, error)
	// Bounds returns the first retained position (head+1 when nothing is retained) and the last
	// visible one. A store that has to ask for the first may fail, and honours ctx.
	Bounds(ctx context.Context) (oldest, head Position, err error)
	// Proof returns what [Entry.Proof] of the entry at p says, of every retained entry and of the last
	// one that was evicted, which the log remembers. It is 0 where that is not known: of position 0, of
	// what was evicted before, beyond the head, and of what was evicted before the log remembered. Of
	// entries that were appended last it is answered from memory. See CUR-8.
	Proof(ctx context.Context, p Position) (uint32, error)
	// Epoch identifies this life of the log: random when the log lives in memory, stored with a
	// durable one. It is never 0. See CUR-1.
	Epoch() uint64
}

// LogOptions bound a log's retention and observe its appends.
type LogOptions struct {
	// MaxAge evicts entries appended longer ago; 0 means no such bound.
	MaxAge time.Duration
	// MaxCount evicts the oldest entries beyond that many; 0 means no such bound.
	MaxCount int
	// MaxBytes evicts the oldest entries while all together take more memory; the last one stays. 0 means no such
	// bound. It is for stores in memory: a durable one refuses it.
	MaxBytes int
	// Appended, when set, is called with newly visible entries in position order, inside the step
	// that makes them visible and before their Append returns; a group commit may pass several at
	// once. It must not block and must not call the log.
	Appended func([]Entry)
}

// A Store opens logs by name.
type Store interface {
	// OpenLog opens the log of that name, making it when it does not exist. Opening a name again
	// gives the same entries, positions and epoch; the options of the last opening hold.
	OpenLog(ctx context.Context, name string, o LogOptions) (EventLog, error)
	// Durable tells whether entries survive the process.
	Durable() bool
	// Close ends the store; later calls return ErrClosed.
	Close() error
}

// A Pinger is a [Store] that can tell whether it works: those of this module can.
type Pinger interface {
	// Ping returns nil when the store can be read and written now, [ErrClosed] after Close, or what is
	// wrong. It writes nothing and honours ctx.
	Ping(ctx context.Context) error
}
