package topic

import (
	"context"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Since is a time in the past: At, or Age before now where At is not set.
type Since struct {
	At  time.Time
	Age time.Duration
}

// by is that time by the type's clock.
func (s *Since) by(typ *Type) time.Time {
	if s.At.IsZero() {
		return typ.Now().Add(-s.Age)
	}
	return s.At
}

// A Kept tells what a log keeps.
type Kept struct {
	// MaxAge is how long it keeps entries; 0 for no such bound.
	MaxAge time.Duration
	// MaxCount is how many it keeps at least, before it evicts one that is not too old.
	MaxCount int
	// Volatile tells that it began with the process.
	Volatile bool
}

// has reports whether every entry since limit is still there, in a log that has evicted some and has n others, all of
// them since limit. Had it evicted one of those since limit for another bound than its age, the MaxCount that were left
// then would still be there.
func (k *Kept) has(limit, now time.Time, n int) bool {
	if k.MaxAge > 0 && now.Sub(limit) > k.MaxAge {
		return false
	}
	return n < k.MaxCount
}

// slack is how far from where the time turns entries may lie out of order: timestamps are the author's.
const slack = 4 * ReadChunk

// since finds where a reader begins that wants what happened since limit. truncated tells that some of that may not be
// retained.
func (t *Topic) since(ctx context.Context, typ *Type, limit time.Time) (pos store.Position, truncated bool, err error) {
	oldest, head := t.Bounds()
	pos, err = t.lastBefore(ctx, oldest, head, limit)
	if err != nil {
		return 0, false, err
	}
	if pos, err = t.FirstSince(ctx, max(oldest-1, pos-min(pos, slack)), pos, limit); err != nil {
		return 0, false, err
	}
	oldest, _ = t.Bounds()
	switch k := &t.options.Kept; {
	case k.Volatile && limit.Before(t.life.Load().began):
		return pos, true, nil
	case pos >= oldest, oldest == 1: // one before limit is still there, or all are
		return pos, false, nil
	default:
		evicted := t.Floor()+1 < oldest // by the log, and not by another schema
		return pos, !evicted || !k.has(limit, typ.Now(), int(head-min(head, pos))), nil
	}
}

// Before returns the position of the last retained entry that happened before limit, and the one before the first
// retained entry where there is none. Where timestamps are not in order it is one of the places where they pass limit.
func (t *Topic) Before(ctx context.Context, limit time.Time) (store.Position, error) {
	oldest, head := t.Bounds()
	return t.lastBefore(ctx, oldest, head, limit)
}

// lastBefore returns the position of the last entry from oldest to head that happened before limit, oldest-1 for none,
// in a log that is in order of time. It looks at few entries, from the head back in growing steps and then between two
// of them, however long the log is.
func (t *Topic) lastBefore(ctx context.Context, oldest, head store.Position, limit time.Time) (store.Position, error) {
	before, after := oldest-1, head+1 // known to be before limit, and not to be
	for step := store.Position(1); after-before > 1; {
		at := before + (after-before)/2
		if step > 0 {
			at = max(after-min(after, step), oldest)
		}
		b, err := t.Read(ctx, at-1, 1)
		if err != nil {
			return 0, err
		}
		// One that was evicted meanwhile counts as before.
		if len(b.Entries) == 0 || b.Entries[0].Position != at || b.Entries[0].Timestamp.Before(limit) {
			before, step = at, 0
			continue
		}
		after = at
		if step *= 2; step > math.MaxInt64/2 {
			step = 0
		}
	}
	return before, nil
}
