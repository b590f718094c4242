package topic

import (
	"context"
	"math"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Since is an absolute or relative time in the past. It is At. If At is zero, it is the time Age before the current
// time.
type Since struct {
	At  time.Time
	Age time.Duration
}

// resolve converts s to an absolute time. The type's clock determines the current time.
func (s *Since) resolve(typ *Type) time.Time {
	if s.At.IsZero() {
		return typ.Now().Add(-s.Age)
	}
	return s.At
}

// A Kept describes the retention of a log.
type Kept struct {
	// MaxAge is how long entries are kept. Zero means no limit.
	MaxAge time.Duration
	// MaxCount is the minimum number of entries that the log keeps, unless they are older than MaxAge.
	MaxCount int
	// Volatile reports whether the log is lost when the process exits.
	Volatile bool
}

// Kept returns the retention settings of the log.
func (t *Topic) Kept() Kept { return t.options.Kept }

// hasAllSince reports whether a log that has evicted entries still contains every entry since limit. The parameter n is
// the number of entries since limit. If the log had evicted such an entry for a reason other than its age, it would
// still contain at least MaxCount later entries.
func (k *Kept) hasAllSince(limit, now time.Time, n int) bool {
	if k.MaxAge > 0 && now.Sub(limit) > k.MaxAge {
		return false
	}
	return n < k.MaxCount
}

// timestampSlack is the number of entries before a found position that are checked for out-of-order timestamps. Authors
// set the timestamps, so they can be out of order.
const timestampSlack = 4 * ReadChunk

// startAfterTime returns the start position for a reader of the events since limit. The result truncated reports
// whether some of those events might have been evicted.
func (t *Topic) startAfterTime(ctx context.Context, typ *Type, limit time.Time) (pos store.Position, truncated bool, err error) {
	oldest, head := t.Bounds()
	pos, err = t.lastBefore(ctx, oldest, head, limit)
	if err != nil {
		return 0, false, err
	}
	if pos, err = t.FirstSince(ctx, max(oldest-1, pos-min(pos, timestampSlack)), pos, limit); err != nil {
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
		return pos, !evicted || !k.hasAllSince(limit, typ.Now(), int(head-min(head, pos))), nil
	}
}

// Before returns the position of the last retained entry before limit. If all retained entries are later, it returns
// the position before the first entry. If the timestamps are out of order, it returns a position at which they cross
// limit.
func (t *Topic) Before(ctx context.Context, limit time.Time) (store.Position, error) {
	oldest, head := t.Bounds()
	return t.lastBefore(ctx, oldest, head, limit)
}

// lastBefore returns the position of the last entry between oldest and head with a timestamp before limit. If all of
// them are later, it returns oldest-1. The entries must be ordered by time. It searches backward from the head in
// doubling steps and then by bisection, so it reads only a few entries even from a long log.
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
		// If the entry has been evicted or is damaged, the next entry is used instead. A reader that starts there
		// reports a gap.
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
