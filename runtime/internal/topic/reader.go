package topic

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Reader is one consumer's position in a topic. Only the consumer's goroutine accesses pos and args. The topic's lock
// guards all other fields.
type Reader struct {
	topic *Topic
	life  *epochLog // in which pos is valid
	args  *Arguments
	id    string                    // of the subscription
	bell  Bell                      // rung under the topic's lock unless it is a Wake; nil if the reader never parks
	pos   store.Position            // of the last entry that was passed
	skips func(eventID string) bool // nil to skip nothing

	bucket *bucket        // nil while not attached
	twin   int            // in index.byID[id], while attached
	slot   int            // in bucket.parked, -1 while not parked
	parked bool           // between Park and Unpark, woken or not
	first  store.Position // first match since parking, 0 for none
}

// Reader returns a reader for the subscription with the given id. It starts after pos.
func (t *Topic) Reader(a *Arguments, id string, bell Bell, pos store.Position) Reader {
	return Reader{topic: t, life: t.life.Load(), args: a, id: id, bell: bell, pos: pos, slot: -1}
}

// ReaderFrom is like [Topic.Reader], but the reader starts at from, in the epoch that from belongs to.
func (t *Topic) ReaderFrom(a *Arguments, id string, bell Bell, from Start) Reader {
	r := t.Reader(a, id, bell, from.Position)
	r.life = from.life
	return r
}

// SkipEvents sets which entries r passes without examining them, by their eventIds.
func (r *Reader) SkipEvents(skips func(eventID string) bool) { r.skips = skips }

// Topic returns the topic that r reads.
func (r *Reader) Topic() *Topic { return r.topic }

// Position returns the last position that r has passed.
func (r *Reader) Position() store.Position { return r.pos }

// Skip moves r to p.
func (r *Reader) Skip(p store.Position) { r.pos = p }

// Cursor returns the JSON encoding of the cursor for r's position.
func (r *Reader) Cursor() []byte { return r.life.cursor(r.topic, r.args.Of, r.pos) }

// Place returns r's position as a cursor without a kind or name.
func (r *Reader) Place() wire.Cursor { return r.life.placeAt(r.topic, r.args.Of, r.pos) }

// PlaceAfter returns the position after e as a cursor without a kind or name. The entry e must have been returned by r.
func (r *Reader) PlaceAfter(e *store.Entry) wire.Cursor {
	return wire.Cursor{Epoch: r.life.epoch, Position: uint64(e.Position), Proof: r.args.Of.cursorProof(e.Proof())}
}

// Fill reads entries for a poll. It continues after a gap and sets More only if a later entry might match. The bound's
// Scan limits all of this together.
func (r *Reader) Fill(ctx context.Context, into []Outcome, b Bound) (Pulled, error) {
	gap := false
	for {
		p, err := r.Next(ctx, into, b)
		b.Scan = p.Left
		if err == nil && p.Gap {
			gap, into = !r.args.Of.NoReplay, p.Out
			continue
		}
		if err == nil && p.More && len(p.Out) >= b.Outcomes {
			p.More, err = r.Waiting(ctx, b.Scan)
		}
		p.Gap = gap
		return p, err
	}
}

// Rebind removes r from the index and replaces its arguments with those of another definition.
func (r *Reader) Rebind(a *Arguments) {
	r.Close()
	r.args = a
}

// Close removes r from the index. It is a no-op if r is not in the index.
func (r *Reader) Close() {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	r.settle()
	if r.bucket != nil {
		t.index.detach(r)
	}
}

// Park prepares r to wait at the head for its bell. It returns false if r is not at the head or if its arguments belong
// to another definition. A reader is added to the index when it first parks.
func (r *Reader) Park() bool { return r.ParkAt(r.args, r.pos) }

// ParkAt is like [Reader.Park], but parks at pos. If r is not in the index, ParkAt also sets its arguments to a.
func (r *Reader) ParkAt(a *Arguments, pos store.Position) bool {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head > pos || a.Of != t.typ || r.life != t.life.Load() {
		return false
	}
	if r.bucket == nil {
		r.args, r.slot = a, -1
		t.index.attach(r)
	}
	r.pos, r.first, r.parked = pos, 0, true
	t.index.park(r)
	return true
}

// Unpark ends the wait and returns r's new position. The new position is the position before the first match, or the
// head if nothing matched.
func (r *Reader) Unpark() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	r.settle()
	return r.pos
}

// Passed returns the position that Unpark would currently return, or 0 if r is not parked.
func (r *Reader) Passed() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	switch {
	case !r.parked:
		return 0
	case r.life != r.topic.life.Load():
		return r.pos
	case r.first > 0:
		return r.first - 1
	default:
		return max(r.pos, r.topic.head)
	}
}

func (r *Reader) settle() {
	if !r.parked {
		return
	}
	if r.slot >= 0 {
		r.topic.index.unpark(r)
	}
	switch {
	case r.life != r.topic.life.Load(): // its position in the new epoch is unknown
	case r.first > 0:
		r.pos = max(r.pos, r.first-1)
	default:
		r.pos = max(r.pos, r.topic.head)
	}
	r.first, r.parked = 0, false
}

// Bounds of one pass. The size of the results is also limited, because a stalled consumer retains the results of one
// pass.
const (
	// ReadChunk is the number of entries to request in a single read from the log.
	ReadChunk = 64
	// PullBatch is the maximum number of outcomes per pass.
	PullBatch = 128
	// PullScan is the maximum cost of the entries that one pass examines, in units.
	PullScan = 16 * ReadChunk

	PullBytes = 1 << 20
)

// A Bound limits the outcomes of a pass, their total size in bytes, and the cost of the examined entries in units. A
// pass examines at least one entry, whatever it costs.
//
// An entry costs one unit, and one more for each UnitBytes of its payload and each UnitTime of the estimated time of
// the x-match tests. The time of the author's hooks does not count, so a pass calls each hook at most Scan times.
type Bound struct{ Outcomes, Bytes, Scan int }

// The cost of a unit, in bytes and in nanoseconds.
const (
	UnitBytes = 4 << 10
	UnitTime  = 10_000
)

// units returns the cost of an entry whose x-match tests take the given time in nanoseconds.
func units(e *store.Entry, time int) int { return 1 + len(e.Data)/UnitBytes + time/UnitTime }

// Batch returns the bound for a pass of a stream or webhook subscription with at most the given number of outcomes.
func Batch(outcomes int) Bound { return Bound{outcomes, PullBytes, PullScan} }

// Next reads from r.pos until it reaches the head or a limit of the bound. It moves r.pos past every entry that it
// examines, whether the entry matches or not. Otherwise a filtered scan would never advance (trap 12). The first
// outcome is returned regardless of its size. The pass stops at a gap.
func (r *Reader) Next(ctx context.Context, into []Outcome, b Bound) (Pulled, error) {
	p := Pulled{Out: into, Left: b.Scan}
	bytes := b.Bytes
	for i := range into {
		bytes -= into[i].Size()
	}
	for p.Left > 0 && len(p.Out) < b.Outcomes {
		if r.life != r.topic.life.Load() {
			r.restart()
			p.Gap, p.More = true, true
			return p, nil
		}
		got, err := r.topic.read(ctx, r.life, r.pos, min(p.Left, ReadChunk))
		if err != nil {
			if err = r.topic.handleNewEpoch(r.life, err); err == nil {
				continue
			}
			return p, err
		}
		if got.Gap {
			p.Gap, p.More = true, true
			r.pos = got.Oldest - 1
			return p, nil
		}
		if len(got.Entries) == 0 {
			r.pos = max(r.pos, got.Head) // no entries in between: a log has no holes
			return p, nil
		}
		for i := 0; i < len(got.Entries) && p.Left > 0; i++ {
			e := &got.Entries[i]
			o, ok, cost, err := r.evaluate(ctx, e)
			p.Left -= cost
			if err != nil {
				return p, err
			}
			if ok {
				if bytes -= o.Size(); bytes < 0 && len(p.Out) > 0 {
					p.More = true // r.pos is still before it
					return p, nil
				}
			}
			r.pos = e.Position
			if ok {
				if p.Out = append(p.Out, o); len(p.Out) == b.Outcomes {
					break
				}
			}
		}
		if r.pos >= got.Head {
			return p, nil
		}
	}
	p.More = true
	return p, nil
}

// restart moves r to the oldest entry in the log's new epoch.
func (r *Reader) restart() {
	r.Close()
	r.life = r.topic.life.Load()
	oldest, _ := r.topic.Bounds()
	r.pos = oldest - 1
}

// evaluate checks an entry against its targets, the x-match rules and the author's Match, and then applies Transform
// and PerPrincipal. It also returns the cost in units. It only returns errors of the context. An error for the entry is
// stored in the outcome.
func (r *Reader) evaluate(ctx context.Context, e *store.Entry) (o Outcome, ok bool, cost int, err error) {
	if r.skips != nil && r.skips(e.EventID) {
		return Outcome{}, false, units(e, 0), nil
	}
	return evaluateEntry(ctx, r.life.recordOf(e, r.args.Of), r.args, r.id)
}

// A Record is an entry that is not in a topic's log. It is decoded, transformed and encoded once for all subscriptions
// with the same arguments.
type Record struct{ rec *record }

// NewRecord returns the record of an entry. The parameter cursor is the JSON encoding of the cursor after the entry.
func NewRecord(of *Type, e store.Entry, cursor []byte) *Record {
	return &Record{newRecord(of, e, cursor)}
}

// Consider evaluates the record for a subscription, as a reader does. It reports whether the record concerns the
// subscription, and the cost in units.
func (r *Record) Consider(ctx context.Context, a *Arguments, id string) (o Outcome, ok bool, cost int, err error) {
	return evaluateEntry(ctx, r.rec, a, id)
}

func evaluateEntry(ctx context.Context, rec *record, a *Arguments, id string) (o Outcome, ok bool, cost int, err error) {
	if !rec.isAddressedTo(id) {
		return Outcome{}, false, units(&rec.entry, 0), nil
	}
	ok, time := a.matches(rec.places)
	cost = units(&rec.entry, time)
	if ok {
		o, ok, err = applyHooks(ctx, rec, a)
	}
	return o, ok, cost, err
}

// applyHooks returns the outcome of a record that satisfies the x-match rules. It returns false if a hook of the author
// withholds it.
func applyHooks(ctx context.Context, rec *record, a *Arguments) (Outcome, bool, error) {
	ok, err := rec.accepts(ctx, a)
	if err == nil && !ok {
		return Outcome{}, false, nil
	}
	var v *variant
	if err == nil {
		v, err = rec.payloadFor(ctx, a)
	}
	if err == nil && rec.typ.PerPrincipal != nil {
		if v, err = rec.privateView(ctx, a, v); v == nil && err == nil {
			return Outcome{}, false, nil
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{}, false, ctx.Err()
		}
		return Outcome{rec: rec, err: fmt.Errorf("event %s of %s: %w", rec.entry.EventID, rec.typ.Name, err)}, true, nil
	}
	return Outcome{rec: rec, v: v}, true, nil
}

// Waiting reports whether a later entry might match. It examines entries for up to scan units, but at least one entry,
// and does not move r.
func (r *Reader) Waiting(ctx context.Context, scan int) (bool, error) {
	ahead := r.topic.ReaderFrom(r.args, r.id, nil, Start{Position: r.pos, life: r.life})
	ahead.skips = r.skips
	p, err := ahead.Next(ctx, nil, Bound{1, PullBytes, max(scan, 1)}) // the first outcome is returned regardless of its size
	return p.Gap || p.More || len(p.Out) > 0, err
}
