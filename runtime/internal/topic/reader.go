package topic

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Reader is one consumer's place in a topic. pos and args are its goroutine's; the rest belongs
// to the topic's lock.
type Reader struct {
	topic *Topic
	life  *life // that pos is of
	args  *Arguments
	id    string         // of the subscription
	bell  Bell           // rung under the topic's lock; nil for one that never parks
	pos   store.Position // last passed

	bucket *bucket        // nil while not attached
	twin   int            // in index.byID[id], while attached
	slot   int            // in bucket.parked, -1 while not parked
	parked bool           // since the last park, woken or not
	first  store.Position // first match since parking, 0 for none
}

// Reader places a reader behind pos, for the subscription of an id.
func (t *Topic) Reader(a *Arguments, id string, bell Bell, pos store.Position) Reader {
	return Reader{topic: t, life: t.life.Load(), args: a, id: id, bell: bell, pos: pos, slot: -1}
}

// ReaderFrom is [Topic.Reader] from where a request begins: in the log's epoch that this was found in.
func (t *Topic) ReaderFrom(a *Arguments, id string, bell Bell, from Start) Reader {
	r := t.Reader(a, id, bell, from.Position)
	r.life = from.life
	return r
}

// Topic is where it reads.
func (r *Reader) Topic() *Topic { return r.topic }

// Position is the last one that is passed.
func (r *Reader) Position() store.Position { return r.pos }

// Skip passes everything up to p.
func (r *Reader) Skip(p store.Position) { r.pos = p }

// Cursor is the cursor of the position, as JSON.
func (r *Reader) Cursor() []byte { return r.life.cursor(r.topic, r.args.Of, r.pos) }

// Place is the position as cursors have it.
func (r *Reader) Place() wire.Cursor { return r.life.place(r.topic, r.pos) }

// PlaceAfter is the one after an entry that r has given.
func (r *Reader) PlaceAfter(e *store.Entry) wire.Cursor {
	return wire.Cursor{Epoch: r.life.epoch, Position: uint64(e.Position), Proof: e.Proof()}
}

// Pull returns what is ready for a stream or webhook subscription, up to a bound.
func (r *Reader) Pull(ctx context.Context, into []Outcome) (Pulled, error) {
	return r.Next(ctx, into, Batch(PullBatch))
}

// Fill reads for a poll: it goes on after a gap, and more entries are no news when none of them matches.
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

// Rebind goes on with arguments of another definition.
func (r *Reader) Rebind(a *Arguments) {
	r.Close()
	r.args = a
}

// Close takes r out of the index; it is a no-op for one that is not in it.
func (r *Reader) Close() {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	r.settle()
	if r.bucket != nil {
		t.index.detach(r)
	}
}

// Park lets r wait at the head, for its bell; false when it is not there, or when its arguments are of
// another definition. A reader enters the index when it parks for the first time.
func (r *Reader) Park() bool { return r.ParkAt(r.args, r.pos) }

// ParkAt is [Reader.Park] at pos and, where r is not in the index yet, with arguments a.
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

// Unpark ends the waiting: r jumps to just before its first match or, without one, to the head. It
// returns where that is.
func (r *Reader) Unpark() store.Position {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	r.settle()
	return r.pos
}

// Passed is where r would jump now; 0 while it is not parked.
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
	case r.life != r.topic.life.Load(): // where it would be is not known any more
	case r.first > 0:
		r.pos = max(r.pos, r.first-1)
	default:
		r.pos = max(r.pos, r.topic.head)
	}
	r.first, r.parked = 0, false
}

// Bounds of one pass. A consumer that is stalled holds what one pass gave it, so that is bounded in
// bytes too.
const (
	// ReadChunk is how many entries are read at once.
	ReadChunk = 64
	// PullBatch is how many outcomes one pass gives.
	PullBatch = 128
	// PullScan is how many entries one pass looks at.
	PullScan = 16 * ReadChunk

	PullBytes = 1 << 20
)

// A Bound is one pass's: outcomes, bytes that they take together, and entries to look at.
type Bound struct{ Outcomes, Bytes, Scan int }

// Batch is the bound of a pass of a stream or webhook subscription, of so many outcomes.
func Batch(outcomes int) Bound { return Bound{outcomes, PullBytes, PullScan} }

// Next reads from r.pos until into has all outcomes of the bound or another one would make them larger
// than its bytes together, until it has looked at its entries or is at the head. It moves r.pos over
// everything that it has looked at, matching or not (trap 12: a filtered scan that never advances).
// One outcome is taken whatever its size. A gap ends the pass before the entries that follow it.
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
			r.pos = max(r.pos, got.Head) // nothing between: a log has no holes
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
					p.More = true // and it is still ahead
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

// restart goes on in the log's new epoch, from its oldest entry.
func (r *Reader) restart() {
	r.Close()
	r.life = r.topic.life.Load()
	oldest, _ := r.topic.Bounds()
	r.pos = oldest - 1
}

// consider runs one entry through x-match, target, the author's Match and Transform. Its error is
// the context's only; what goes wrong with the entry is in the outcome.
func (r *Reader) consider(ctx context.Context, e *store.Entry) (Outcome, bool, error) {
	return consider(ctx, r.life.record(e, r.args.Of), r.args, r.id)
}

// Consider is what a reader does with an entry, for one of no topic: cursor is the one after it, as JSON.
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
	p, err := ahead.Next(ctx, nil, Bound{1, PullBytes, scan}) // one is taken whatever its size
	return p.Gap || p.More || len(p.Out) > 0, err
}
