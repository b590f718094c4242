package topic

import (
	"context"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Since is a time in the past: At or, if At is zero, Age before now.
type Since struct {
	At  time.Time
	Age time.Duration
}

// by returns the time, by the type's clock.
func (s *Since) by(typ *Type) time.Time {
	if s.At.IsZero() {
		return typ.Now().Add(-s.Age)
	}
	return s.At
}

// A Kept describes the retention of a log.
type Kept struct {
	// MaxAge is the time that entries are kept; 0 for no bound.
	MaxAge time.Duration
	// MaxCount is the number of entries that the log keeps at least, before it evicts entries younger than MaxAge.
	MaxCount int
	// Volatile reports whether the log began with the process.
	Volatile bool
}

// Kept returns the retention of the log.
func (t *Topic) Kept() Kept { return t.options.Kept }

// has reports whether a log that evicted entries still has every entry since limit. n is the number of its entries
// since limit. If the log had evicted an entry since limit for a reason other than age, at least MaxCount later
// entries would still be there.
func (k *Kept) has(limit, now time.Time, n int) bool {
	if k.MaxAge > 0 && now.Sub(limit) > k.MaxAge {
		return false
	}
	return n < k.MaxCount
}

// slack is the number of entries around the found position that are searched for timestamps out of order, because
// authors set timestamps.
const slack = 4 * ReadChunk

// since returns the position at which a reader of the events since limit starts. truncated reports whether some of
// those events may have been evicted.
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
	case pos >= oldest, oldest == 1: // an entry before limit is still there, or all entries are
		return pos, false, nil
	default:
		evicted := t.Floor()+1 < oldest // by the log, not by a schema change
		return pos, !evicted || !k.has(limit, typ.Now(), int(head-min(head, pos))), nil
	}
}

// Before returns the position of the last retained entry before limit. Without one it returns the position before
// the first retained entry. If timestamps are out of order, it returns one of the positions at which they cross
// limit.
func (t *Topic) Before(ctx context.Context, limit time.Time) (store.Position, error) {
	oldest, head := t.Bounds()
	return t.lastBefore(ctx, oldest, head, limit)
}

// lastBefore returns the position of the last entry from oldest to head that is before limit, or oldest-1. The log
// must be in order of time. It searches from the head back in doubling steps and then by bisection, so it reads few
// entries even of a long log.
func (t *Topic) lastBefore(ctx context.Context, oldest, head store.Position, limit time.Time) (store.Position, error) {
	before, after := oldest-1, head+1 // known to be before limit, and known not to be
	for step := store.Position(1); after-before > 1; {
		at := before + (after-before)/2
		if step > 0 {
			at = max(after-min(after, step), oldest)
		}
		b, err := t.Read(ctx, at-1, 1)
		if err != nil {
			return 0, err
		}
		// If the entry was evicted meanwhile or is damaged, the next one counts: a reader that starts there gets a
		// gap.
		if len(b.Entries) > 0 && b.Entries[0].Timestamp.Before(limit) {
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
