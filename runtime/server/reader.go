package server

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An outcome is what one matching entry came to: an occurrence to write, or the error that keeps
// it from this subscription (OCC-4).
type outcome struct {
	rec *record
	v   *variant
	err error
}

// A pull is what one bounded pass over a log gave.
type pull struct {
	out []outcome
	// more tells that the pass stopped before the head.
	more bool
	// gap tells that entries were lost before out (PUSH-7).
	gap bool
}

// Bounds of one pass. A consumer that is stalled holds what one pass gave it, so that is bounded in
// bytes too.
const (
	readChunk = 64
	pullBatch = 128
	pullBytes = 1 << 20
)

// occurrenceOverhead is more than what an occurrence takes on the wire beside its data and _meta.
const occurrenceOverhead = 1024

// size is what the outcome takes on the wire, at most.
func (o *outcome) size() int {
	if o.err != nil {
		return occurrenceOverhead
	}
	return len(o.v.data) + len(o.rec.entry.Meta) + len(o.rec.cursor) + occurrenceOverhead
}

// next is nextWithin for a pass of a stream or webhook subscription.
func (r *reader) next(ctx context.Context, into []outcome, limit, scan int) (pull, error) {
	return r.nextWithin(ctx, into, limit, pullBytes, scan)
}

// nextWithin reads from r.pos until into has limit outcomes or another one would make them larger
// than bytes together, until it has looked at scan entries or is at the head. It moves r.pos over
// everything that it has looked at, matching or not (trap 12: a filtered scan that never advances).
// One outcome is taken whatever its size. A gap ends the pass before the entries that follow it.
func (r *reader) nextWithin(ctx context.Context, into []outcome, limit, bytes, scan int) (pull, error) {
	p := pull{out: into}
	for i := range into {
		bytes -= into[i].size()
	}
	for scan > 0 && len(p.out) < limit {
		b, err := r.topic.read(ctx, r.pos, min(scan, readChunk))
		if err != nil {
			return p, err
		}
		if b.Gap {
			p.gap, p.more = true, true
			r.pos = b.Oldest - 1
			return p, nil
		}
		if len(b.Entries) == 0 {
			r.pos = max(r.pos, b.Head) // nothing between: a log has no holes
			return p, nil
		}
		for i := range b.Entries {
			e := &b.Entries[i]
			o, ok, err := r.consider(ctx, e)
			if err != nil {
				return p, err
			}
			if ok {
				if bytes -= o.size(); bytes < 0 && len(p.out) > 0 {
					p.more = true // and it is still ahead
					return p, nil
				}
			}
			r.pos = e.Position
			scan--
			if ok {
				if p.out = append(p.out, o); len(p.out) == limit {
					break
				}
			}
		}
		if r.pos >= b.Head {
			return p, nil
		}
	}
	p.more = true
	return p, nil
}

// consider runs one entry through x-match, target, the author's Match and Transform. Its error is
// the context's only; what goes wrong with the entry is in the outcome.
func (r *reader) consider(ctx context.Context, e *store.Entry) (outcome, bool, error) {
	return consider(ctx, r.topic.record(e, r.args.def), r.args, r.id)
}

func consider(ctx context.Context, rec *record, a *arguments, id string) (outcome, bool, error) {
	if !rec.targets(id) || !a.matches(rec.places) {
		return outcome{}, false, nil
	}
	ok, err := rec.accepts(ctx, a)
	if err == nil && !ok {
		return outcome{}, false, nil
	}
	var v *variant
	if err == nil {
		v, err = rec.variant(ctx, a)
	}
	if err != nil {
		if ctx.Err() != nil {
			return outcome{}, false, ctx.Err()
		}
		return outcome{rec: rec, err: fmt.Errorf("event %s of %s: %w", rec.entry.EventID, rec.def.info.Name, err)}, true, nil
	}
	return outcome{rec: rec, v: v}, true, nil
}

// waiting reports whether another matching entry lies within scan entries, without moving r.
func (r *reader) waiting(ctx context.Context, scan int) (bool, error) {
	ahead := reader{topic: r.topic, args: r.args, id: r.id, pos: r.pos, slot: -1}
	p, err := ahead.next(ctx, nil, 1, scan) // one is taken whatever its size
	return p.gap || p.more || len(p.out) > 0, err
}
