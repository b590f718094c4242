package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A damageMap records the unreadable entries of a log. To find the next readable entry, entries must be tried one after
// another. The map makes it unnecessary to repeat that search.
type damageMap struct {
	mu     sync.Mutex
	ranges []damagedRange // in order; no two of them touch
}

// A damagedRange is a range of entries that cannot be read.
type damagedRange struct {
	first, last store.Position
	err         error // of the first damaged entry that was read
	reported    bool
}

// findRange returns the index of the range that contains p, or the index at which to insert p. The caller must hold
// d.mu.
func (d *damageMap) findRange(p store.Position) (int, bool) {
	return slices.BinarySearchFunc(d.ranges, p, func(r damagedRange, p store.Position) int {
		switch {
		case r.last < p:
			return -1
		case r.first > p:
			return 1
		}
		return 0
	})
}

// skipDamaged returns the last position of the damaged range that begins right after p. If the next entry is undamaged,
// it returns p.
func (d *damageMap) skipDamaged(p store.Position) store.Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.findRange(p + 1); ok {
		return d.ranges[i].last
	}
	return p
}

// addDamaged records that the entry at p is damaged, and returns the last position of its range.
func (d *damageMap) addDamaged(p store.Position, err error) store.Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.findRange(p)
	if ok {
		return d.ranges[i].last
	}
	r := damagedRange{first: p, last: p, err: err}
	from, to := i, i
	if from > 0 && d.ranges[from-1].last == p-1 {
		from--
		r.first, r.err = d.ranges[from].first, d.ranges[from].err
	}
	if to < len(d.ranges) && d.ranges[to].first == p+1 {
		r.last = d.ranges[to].last
		to++
	}
	d.ranges = slices.Replace(d.ranges, from, to, r)
	return r.last
}

// reportRange calls f with the range that ends at p, unless that range has already been reported.
func (d *damageMap) reportRange(p store.Position, f func(first, last store.Position, err error)) {
	d.mu.Lock()
	i, ok := d.findRange(p)
	if !ok || d.ranges[i].reported {
		d.mu.Unlock()
		return
	}
	d.ranges[i].reported = true
	r := d.ranges[i]
	d.mu.Unlock()
	if f != nil {
		f(r.first, r.last, r.err)
	}
}

// countDamaged returns the number of damaged entries at or after oldest. It removes the ranges before oldest.
func (d *damageMap) countDamaged(oldest store.Position) (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranges = slices.DeleteFunc(d.ranges, func(r damagedRange) bool { return r.last < oldest })
	for _, r := range d.ranges {
		n += int64(r.last-max(r.first, oldest)) + 1
	}
	return n
}

// Damaged returns the number of retained entries that are known to be damaged. Readers report a gap instead of those
// entries.
func (t *Topic) Damaged() int64 {
	oldest, _ := t.Bounds()
	return t.life.Load().damage.countDamaged(oldest)
}

// readUndamaged is like [store.EventLog.Read], but skips damaged entries. If entries are skipped, the batch reports a
// gap, and its Oldest is the first position after the damaged entries.
func (t *Topic) readUndamaged(ctx context.Context, l *epochLog, after store.Position, limit int) (store.Batch, error) {
	from := l.damage.skipDamaged(after)
	for {
		b, err := truncateDamaged(l.log.Read(ctx, from, limit))
		if d, ok := errors.AsType[*store.DamagedError](err); ok && d.Position > from {
			from = l.damage.addDamaged(d.Position, err)
			continue
		}
		if err == nil && from > after {
			l.damage.reportRange(from, t.options.Damaged)
			b.Gap, b.Oldest = true, max(b.Oldest, from+1)
		}
		return b, err
	}
}

// truncateDamaged truncates a batch before the first entry that has an empty list of targets. Such entries are never
// appended. The PostgreSQL store returns such an entry for each row that it cannot decode.
func truncateDamaged(b store.Batch, err error) (store.Batch, error) {
	for i := range b.Entries {
		e := &b.Entries[i]
		if !engine.ForNobody(e) {
			continue
		}
		if b.Entries = b.Entries[:i]; i == 0 {
			err = &store.DamagedError{Position: e.Position, Err: fmt.Errorf("entry %d does not decode", e.Position)}
		}
		break
	}
	return b, err
}
