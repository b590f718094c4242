package topic

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Source is the log or feed that a subscription reads. Its methods must be called from one goroutine.
type Source interface {
	Parker
	// Next returns the occurrences that are ready, up to the bound.
	Next(ctx context.Context, into []Outcome, b Bound) (Pulled, error)
}

// A Parker reads a log or feed and can wait at its current position.
type Parker interface {
	// Park prepares to wait for the subscription's bell. It returns false if data is already available.
	Park() bool
	// Unpark ends the wait and returns the position in the log. A feed returns 0.
	Unpark() store.Position
	// Cursor returns the JSON encoding of the cursor for the current position. It must not be called while parked.
	Cursor() []byte
	// Close releases all resources.
	Close()
}

// A Bell is notified when new data might be available. Ring must not block. An append rings a bell before others can see
// the new head. It rings a [Wake] soon after that, because the woken goroutine needs the locks that the append holds.
type Bell interface{ Ring() }

// A Wake is a [Bell] that a goroutine can wait for. It is a channel of capacity 1. The channel can be shared with other
// signals.
type Wake chan struct{}

// NewWake returns a Wake that has not been rung.
func NewWake() Wake { return make(Wake, 1) }

// Ring implements [Bell].
func (w Wake) Ring() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Pulled is the result of a pull.
type Pulled struct {
	Out []Outcome
	// More reports whether the pull stopped before the head: Out is full, the scan limit was reached, or a gap follows.
	More bool
	// Gap reports whether entries were lost after the entries in Out, because a pull ends at a gap (PUSH-7). A poll
	// continues after a gap. For a poll, Gap reports whether entries were lost during the poll.
	Gap bool
	// Left is the rest of the bound's Scan. It can be negative, because the last entry can cost more than was left.
	Left int
	// Failed lists the upstream failures since the last pull (PUSH-5).
	Failed []error
}

// An Outcome is the result of evaluating one matching entry. It contains either an occurrence to deliver or the error
// that prevents the delivery to the subscription (OCC-4).
type Outcome struct {
	rec *record
	v   *variant
	err error
}

// Err returns the error that prevents delivery to the subscription, or nil.
func (o *Outcome) Err() error { return o.err }

// Entry returns the log entry.
func (o *Outcome) Entry() *store.Entry { return &o.rec.entry }

// Data returns the payload to deliver to the subscription.
func (o *Outcome) Data() json.RawMessage { return o.v.data }

// Cursor returns the JSON encoding of the cursor after the occurrence.
func (o *Outcome) Cursor() []byte { return o.rec.cursor }

// Frame returns the event's frame for a stream with the given tail. The text around the payload is encoded once for all
// subscriptions.
func (o *Outcome) Frame(tail []byte) frame.Frame {
	around := o.rec.frameText()
	return frame.Frame{around.before, o.v.data, around.after, tail}
}

// Item returns the occurrence encoded for a poll result, without a cursor (OCC-3). It is encoded once for all
// subscriptions.
func (o *Outcome) Item() []byte { return o.rec.pollItem(o.v) }

// Body returns the body of a webhook request with the given cursor. A nil cursor is encoded as null. Only the cursor
// can differ between attempts (HOOK-1).
func (o *Outcome) Body(cursor *string) []byte {
	text := NullCursor
	if cursor != nil {
		text = frame.AppendString(make([]byte, 0, len(*cursor)+2), *cursor)
	}
	return o.rec.appendItem(make([]byte, 0, len(o.v.data)+len(o.rec.entry.Meta)+320), o.v, text)
}

// WithCursor returns a copy of the outcome with the cursor of one subscription. The copy does not share encoded forms
// with other subscriptions.
func (o Outcome) WithCursor(cursor []byte) Outcome {
	if o.err != nil {
		return o
	}
	rec := &record{entry: o.rec.entry, typ: o.rec.typ, cursor: cursor}
	return Outcome{rec: rec, v: &variant{done: true, data: o.v.data}}
}

// occurrenceOverhead is an upper bound on the encoded size of an occurrence in bytes, excluding its data, _meta and
// cursor.
const occurrenceOverhead = 1024

// Size returns an upper bound on the encoded size of the outcome, in bytes.
func (o *Outcome) Size() int {
	if o.err != nil {
		return occurrenceOverhead
	}
	return len(o.v.data) + len(o.rec.entry.Meta) + len(o.rec.cursor) + occurrenceOverhead
}
