// Package coalesce joins events into bursts. Events with the same key are handed over together after a quiet time, or
// at the latest a given time after the first of them (COAL-2). It is a state machine over keys, events and times: it
// has no clock and starts no goroutines.
//
// Start with [Joiner]; [Key] reads an event's key from its payload.
//
// The package makes no promise of compatibility.
package coalesce

import "time"

// A Rule determines when a burst is handed over.
type Rule struct {
	// Quiet is the time without another event for a key, Max the longest wait of a burst's first event.
	Quiet, Max time.Duration
	// Limit is how many keys may be open, at least 1. Before another one is opened, the oldest burst is handed over.
	Limit int
}

// A Burst holds the events of one key that are handed over together.
type Burst[E any] struct {
	Key string
	// Events are in order of arrival. With a merge function there is one, which represents all.
	Events []E
	// Count is the number of events; First and Last are when the first and last one arrived.
	Count       int
	First, Last time.Time

	// Each open burst is in two lists, ordered by First and by Last.
	older, newer      *Burst[E]
	quieter, livelier *Burst[E]
}

// A Joiner holds the events of open bursts. It is not safe for concurrent use. The zero value is not usable; see [New].
//
// Time never goes backwards: an earlier time than the last one counts as the last one.
type Joiner[E any] struct {
	rule  Rule
	merge func(held, next E) E
	open  map[string]*Burst[E]
	now   time.Time
	// oldest and newest are the ends of the list by First, quietest and liveliest those of the list by Last.
	oldest, newest      *Burst[E]
	quietest, liveliest *Burst[E]
}

// New returns a joiner. With merge, a burst holds one event, the result of merge(held, next). Otherwise it holds all
// events.
func New[E any](r Rule, merge func(held, next E) E) *Joiner[E] {
	return &Joiner[E]{rule: r, merge: merge, open: map[string]*Burst[E]{}}
}

// Add adds an event. If the limit of open keys is reached, it returns the burst that must be handed over first,
// otherwise nil. It also adds to a burst that is due and was not taken.
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
		j.hush(b)
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

// Due removes and returns the burst that was due first, or nil if none is due.
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

// Oldest returns the burst whose first event is the oldest, or nil if no burst is open.
func (j *Joiner[E]) Oldest() *Burst[E] { return j.oldest }

// TakeOldest removes and returns the burst that Oldest returns.
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

// next returns the burst that is due first, and when.
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
	j.hush(b)
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

// hush removes b from the list by Last.
func (j *Joiner[E]) hush(b *Burst[E]) {
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
