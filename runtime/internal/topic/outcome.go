package topic

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Source is where a subscription reads: the type's log or a feed. Its methods are for one goroutine.
type Source interface {
	Parker
	// Pull returns what is ready, up to a bound.
	Pull(ctx context.Context, into []Outcome) (Pulled, error)
}

// A Parker has a place in what it reads, where it can wait.
type Parker interface {
	// Park prepares to wait for the subscription's bell; false when there is something to do.
	Park() bool
	// Unpark ends the waiting. The position is a log's; a feed has none.
	Unpark() store.Position
	// Cursor is the position that is passed, as JSON. Not while parked.
	Cursor() []byte
	// Close gives everything back.
	Close()
}

// A Bell is rung when there may be something to read. Ringing must not block.
type Bell interface{ Ring() }

// A Wake is a bell to wait for: a hint of capacity 1, which may be shared with other signals.
type Wake chan struct{}

// NewWake makes one that nobody has rung.
func NewWake() Wake { return make(Wake, 1) }

// Ring implements [Bell].
func (w Wake) Ring() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Pulled is what a source has ready.
type Pulled struct {
	Out []Outcome
	// More tells that the pass stopped before the head.
	More bool
	// Gap tells that entries were lost before Out (PUSH-7).
	Gap bool
	// Failed are upstream failures since the last pull (PUSH-5).
	Failed []error
	// Retry is when to pull again without a signal; 0 for not at all.
	Retry time.Duration
}

// An Outcome is the result for one matching entry: an occurrence to write, or the error that keeps
// it from this subscription (OCC-4).
type Outcome struct {
	rec *record
	v   *variant
	err error
}

// Err is the error that keeps the occurrence from the subscription; nil for none.
func (o *Outcome) Err() error { return o.err }

// Entry is the log's.
func (o *Outcome) Entry() *store.Entry { return &o.rec.entry }

// Data is the payload as the subscription gets it.
func (o *Outcome) Data() json.RawMessage { return o.v.data }

// Cursor is the one after the occurrence, as JSON.
func (o *Outcome) Cursor() []byte { return o.rec.cursor }

// Head is the event's frame up to the stream's own tail, encoded once for all subscriptions.
func (o *Outcome) Head() []byte { return o.rec.frameHead(o.v) }

// Item is the occurrence for a poll result, where it has no cursor (OCC-3), encoded once for all.
func (o *Outcome) Item() []byte { return o.rec.pollItem(o.v) }

// Body is the occurrence with a cursor, nil for null, as it is posted. The cursor differs between
// attempts, all else was fixed at append (HOOK-1).
func (o *Outcome) Body(cursor *string) []byte {
	text := NullCursor
	if cursor != nil {
		text = frame.AppendString(make([]byte, 0, len(*cursor)+2), *cursor)
	}
	return o.rec.appendItem(make([]byte, 0, len(o.v.data)+len(o.rec.entry.Meta)+320), o.v, text)
}

// WithCursor is the outcome with another cursor: that of one subscription, which cannot be shared.
func (o Outcome) WithCursor(cursor []byte) Outcome {
	if o.err != nil {
		return o
	}
	rec := &record{entry: o.rec.entry, typ: o.rec.typ, cursor: cursor}
	return Outcome{rec: rec, v: &variant{done: true, data: o.v.data}}
}

// occurrenceOverhead is more than what an occurrence takes on the wire beside its data and _meta.
const occurrenceOverhead = 1024

// Size is what the outcome takes on the wire, at most.
func (o *Outcome) Size() int {
	if o.err != nil {
		return occurrenceOverhead
	}
	return len(o.v.data) + len(o.rec.entry.Meta) + len(o.rec.cursor) + occurrenceOverhead
}
