// Package coalesce groups events into bursts. Events with the same key are delivered together after a quiet time, or a
// maximum time after the first event (COAL-2). The package is a pure state machine without a clock or goroutines.
//
// The main type is [Joiner]. [Key] extracts an event's key from its payload.
//
// The package has no compatibility guarantee.
package coalesce

import "time"

// A Rule determines when a burst is delivered.
type Rule struct {
	// Quiet is the time without another event after which a burst is due. Max is the maximum delay of a burst's first
	// event.
	Quiet, Max time.Duration
	// Limit is the maximum number of open keys, at least 1. When the limit is reached, the oldest burst is delivered
	// before another key is opened.
	Limit int
}

// A Burst holds the events of one key that are delivered together.
type Burst[E any] struct {
	Key string
	// Events contains the events in order of arrival. If there is a merge function, it contains only the merged event.
	Events []E
	// Count is the number of events. First and Last are the arrival times of the first and last event.
	Count       int
	First, Last time.Time

	// Each open burst is in two linked lists, ordered by First and by Last.
	older, newer      *Burst[E]
	quieter, livelier *Burst[E]
}

// A Joiner holds the events of open bursts. It is not safe for concurrent use. Use [New] to create a Joiner.
//
// Time never goes backward. A time before the latest known time is treated as the latest known time.
type Joiner[E any] struct {
	rule  Rule
	merge func(held, next E) E
	open  map[string]*Burst[E]
	now   time.Time
	// oldest and newest are the ends of the list ordered by First. quietest and liveliest are the ends of the list
	// ordered by Last.
	oldest, newest      *Burst[E]
	quietest, liveliest *Burst[E]
}

// New returns a joiner. If merge is not nil, a burst holds one event, the result of merge(held, next). Otherwise it
// holds all events.
func New[E any](r Rule, merge func(held, next E) E) *Joiner[E] {
	return &Joiner[E]{rule: r, merge: merge, open: map[string]*Burst[E]{}}
}

// Add adds an event. If opening a key would exceed the limit, Add returns the oldest burst, which must be delivered
// first. Otherwise it returns nil. Add also adds to a burst that is due but has not been removed.
func (j *Joiner[E]) Add(key string, e E, now time.Time) (early *Burst[E]) {
	now = j.advance(now)
	b := j.open[key]
	if b == nil {
		if len(j.open) >= j.rule.Limit {
			early = j.TakeOldest()
		}
		b = &Burst[E]{Key: key, First: now}
		j.open[key] = b
		if b.older = j.newest; b.older != nil {
			b.older.newer = b
		} else {
			j.oldest = b
		}
		j.newest = b
	} else {
		j.unlinkLast(b)
	}
	if b.Last = now; j.merge != nil && b.Count > 0 {
		b.Events[0] = j.merge(b.Events[0], e)
	} else {
		b.Events = append(b.Events, e)
	}
	b.Count++
	if b.quieter = j.liveliest; b.quieter != nil {
		b.quieter.livelier = b
	} else {
		j.quietest = b
	}
	j.liveliest = b
	return early
}

// Due removes and returns the burst that was due first. It returns nil if no burst is due.
func (j *Joiner[E]) Due(now time.Time) *Burst[E] {
	now = j.advance(now)
	b, at := j.next()
	if b == nil || at.After(now) {
		return nil
	}
	return j.take(b)
}

// Next returns when the next burst is due. ok is false if no burst is open.
func (j *Joiner[E]) Next() (time.Time, bool) {
	b, at := j.next()
	return at, b != nil
}

// Oldest returns the burst with the oldest first event, or nil if no burst is open.
func (j *Joiner[E]) Oldest() *Burst[E] { return j.oldest }

// TakeOldest removes the oldest burst and returns it, or returns nil if no burst is open.
func (j *Joiner[E]) TakeOldest() *Burst[E] {
	if j.oldest == nil {
		return nil
	}
	return j.take(j.oldest)
}

// Open returns the number of open keys.
func (j *Joiner[E]) Open() int { return len(j.open) }

func (j *Joiner[E]) advance(now time.Time) time.Time {
	if now.After(j.now) {
		j.now = now
	}
	return j.now
}

// next returns the burst that is due first and the time at which it is due.
func (j *Joiner[E]) next() (*Burst[E], time.Time) {
	if j.oldest == nil {
		return nil, time.Time{}
	}
	b, at := j.oldest, j.oldest.First.Add(j.rule.Max)
	if quiet := j.quietest.Last.Add(j.rule.Quiet); quiet.Before(at) {
		b, at = j.quietest, quiet
	}
	return b, at
}

// take removes and returns b.
func (j *Joiner[E]) take(b *Burst[E]) *Burst[E] {
	delete(j.open, b.Key)
	j.unlinkLast(b)
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		j.oldest = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		j.newest = b.older
	}
	b.older, b.newer = nil, nil
	return b
}

// unlinkLast removes b from the list ordered by Last.
func (j *Joiner[E]) unlinkLast(b *Burst[E]) {
	if b.quieter != nil {
		b.quieter.livelier = b.livelier
	} else {
		j.quietest = b.livelier
	}
	if b.livelier != nil {
		b.livelier.quieter = b.quieter
	} else {
		j.liveliest = b.quieter
	}
	b.quieter, b.livelier = nil, nil
}
