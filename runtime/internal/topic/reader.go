package topic

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Reader is one consumer's position in a topic. Its goroutine owns pos and args; the topic's lock guards the
// rest.
type Reader struct {
	topic *Topic
	life  *life // in which pos is valid
	args  *Arguments
	id    string         // of the subscription
	bell  Bell           // rung under the topic's lock; nil if the reader never parks
	pos   store.Position // of the last entry that was passed

	bucket *bucket        // nil while not attached
	twin   int            // in index.byID[id], while attached
	slot   int            // in bucket.parked, -1 while not parked
	parked bool           // between Park and Unpark, woken or not
	first  store.Position // first match since parking, 0 for none
}

// Reader returns a reader that starts after pos, for the subscription with an id.
func (t *Topic) Reader(a *Arguments, id string, bell Bell, pos store.Position) Reader {
	return Reader{topic: t, life: t.life.Load(), args: a, id: id, bell: bell, pos: pos, slot: -1}
}

// ReaderFrom is [Topic.Reader] for the start of a request, in the epoch of the log that the start belongs to.
func (t *Topic) ReaderFrom(a *Arguments, id string, bell Bell, from Start) Reader {
	r := t.Reader(a, id, bell, from.Position)
	r.life = from.life
	return r
}

// Topic returns the topic that r reads.
func (r *Reader) Topic() *Topic { return r.topic }

// Position returns the last position that r passed.
func (r *Reader) Position() store.Position { return r.pos }

// Skip moves r to p.
func (r *Reader) Skip(p store.Position) { r.pos = p }

// Cursor returns the JSON of the cursor of r's position.
func (r *Reader) Cursor() []byte { return r.life.cursor(r.topic, r.args.Of, r.pos) }

// Place returns r's position as a cursor, without kind and name.
func (r *Reader) Place() wire.Cursor { return r.life.place(r.topic, r.args.Of, r.pos) }

// PlaceAfter returns the position after an entry that r returned, as a cursor without kind and name.
func (r *Reader) PlaceAfter(e *store.Entry) wire.Cursor {
	return wire.Cursor{Epoch: r.life.epoch, Position: uint64(e.Position), Proof: r.args.Of.proof(e.Proof())}
}

// Pull returns the occurrences that are ready for a stream or webhook subscription, up to a bound.
func (r *Reader) Pull(ctx context.Context, into []Outcome) (Pulled, error) {
	return r.Next(ctx, into, Batch(PullBatch))
}

// Fill reads for a poll: it continues after a gap, and reports More only if a later entry may match.
func (r *Reader) Fill(ctx context.Context, into []Outcome, b Bound) (Pulled, error) {
	gap := false
	for {
		p, err := r.Next(ctx, into, b)
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

// Rebind continues with arguments of another definition.
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

// Park lets r wait at the head for its bell. It returns false if r is not at the head, or if its arguments belong
// to another definition. A reader enters the index when it parks for the first time.
func (r *Reader) Park() bool { return r.ParkAt(r.args, r.pos) }

// ParkAt is [Reader.Park] at pos, with arguments a if r is not in the index.
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

// Unpark ends the wait. r moves to the position before its first match or, without a match, to the head. Unpark
// returns that position.
func (r *Reader) Unpark() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	r.settle()
	return r.pos
}

// Passed returns the position to which Unpark would move r now, or 0 if r is not parked.
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

// Bounds of one pass. A stalled consumer holds the results of one pass, so they are also bounded in bytes.
const (
	// ReadChunk is the number of entries that are read in one call of the log.
	ReadChunk = 64
	// PullBatch is the largest number of outcomes of one pass.
	PullBatch = 128
	// PullScan is the largest number of entries that one pass examines.
	PullScan = 16 * ReadChunk

	PullBytes = 1 << 20
)

// A Bound limits one pass: the number of outcomes, their total bytes, and the number of entries to examine.
type Bound struct{ Outcomes, Bytes, Scan int }

// Batch returns the bound of a pass of a stream or webhook subscription with so many outcomes.
func Batch(outcomes int) Bound { return Bound{outcomes, PullBytes, PullScan} }

// Next reads from r.pos until it reaches a limit of the bound or the head. It moves r.pos past every entry that it
// examined, matching or not; otherwise a filtered scan would never advance (trap 12). The first outcome is returned
// whatever its size. A gap ends the pass before the entries that follow it.
func (r *Reader) Next(ctx context.Context, into []Outcome, b Bound) (Pulled, error) {
	p := Pulled{Out: into}
	bytes, scan := b.Bytes, b.Scan
	for i := range into {
		bytes -= into[i].Size()
	}
	for scan > 0 && len(p.Out) < b.Outcomes {
		if r.life != r.topic.life.Load() {
			r.restart()
			p.Gap, p.More = true, true
			return p, nil
		}
		got, err := r.topic.read(ctx, r.life, r.pos, min(scan, ReadChunk))
		if err != nil {
			if err = r.topic.renewed(r.life, err); err == nil {
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
		for i := range got.Entries {
			e := &got.Entries[i]
			o, ok, err := r.consider(ctx, e)
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
			scan--
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

// restart moves r to the oldest entry of the log's new epoch.
func (r *Reader) restart() {
	r.Close()
	r.life = r.topic.life.Load()
	oldest, _ := r.topic.Bounds()
	r.pos = oldest - 1
}

// consider runs one entry through x-match, target, the author's Match, Transform and PerPrincipal. It only returns
// errors of the context; an error for the entry is in the outcome.
func (r *Reader) consider(ctx context.Context, e *store.Entry) (Outcome, bool, error) {
	return consider(ctx, r.life.record(e, r.args.Of), r.args, r.id)
}

// Consider evaluates an entry that is not in a topic, as a reader does. cursor is the JSON of the cursor after the
// entry.
func Consider(ctx context.Context, e store.Entry, cursor []byte, a *Arguments, id string) (Outcome, bool, error) {
	return consider(ctx, newRecord(a.Of, e, cursor), a, id)
}

func consider(ctx context.Context, rec *record, a *Arguments, id string) (Outcome, bool, error) {
	if !rec.targets(id) || !a.matches(rec.places) {
		return Outcome{}, false, nil
	}
	ok, err := rec.accepts(ctx, a)
	if err == nil && !ok {
		return Outcome{}, false, nil
	}
	var v *variant
	if err == nil {
		v, err = rec.variant(ctx, a)
	}
	if err == nil && rec.typ.PerPrincipal != nil {
		if v, err = rec.private(ctx, a, v); v == nil && err == nil {
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

// Waiting reports whether another matching entry lies within scan entries, without moving r.
func (r *Reader) Waiting(ctx context.Context, scan int) (bool, error) {
	ahead := r.topic.ReaderFrom(r.args, r.id, nil, Start{Position: r.pos, life: r.life})
	p, err := ahead.Next(ctx, nil, Bound{1, PullBytes, scan}) // the first is returned whatever its size
	return p.Gap || p.More || len(p.Out) > 0, err
}
