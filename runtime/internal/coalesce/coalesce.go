// Package coalesce joins the events of a burst: those with the same key are handed over together, once nothing more has
// come for the key for a while, and at the latest some time after the first of them (COAL-2). It is a state machine over
// keys, events and times: it has no clock and starts nothing.
//
// Start with [Joiner]; [Key] reads an event's key from its payload.
//
// The package makes no promise of compatibility.
package coalesce

import "time"

// A Rule says when a burst is handed over.
type Rule struct {
	// Quiet is how long nothing more has to come for a key, Max how long the first event of a burst waits at most.
	Quiet, Max time.Duration
	// Limit is how many keys may be open at once, at least 1. Before another one opens, the oldest burst is handed over.
	Limit int
}

// A Burst is the events of one key that are handed over together.
type Burst[E any] struct {
	Key string
	// Events are in the order in which they came. A joiner with a merge has one, which stands for all.
	Events []E
	// Count is how many came, First and Last when the first and the last one did.
	Count       int
	First, Last time.Time

	// Each open burst is in two lists, whose order is that of First and that of Last.
	older, newer      *Burst[E]
	quieter, livelier *Burst[E]
}

// A Joiner holds the events of open bursts. It is not safe for concurrent use. The zero value is not usable; see [New].
//
// Times never go back: an earlier one than before counts as the one before.
type Joiner[E any] struct {
	rule  Rule
	merge func(held, next E) E
	open  map[string]*Burst[E]
	now   time.Time
	// oldest and newest end the list by First, quietest and liveliest that by Last.
	oldest, newest      *Burst[E]
	quietest, liveliest *Burst[E]
}

// New returns a joiner. With merge a burst holds one event: that of held and next, for each that comes. Without, it
// holds all.
func New[E any](r Rule, merge func(held, next E) E) *Joiner[E] {
	return &Joiner[E]{rule: r, merge: merge, open: map[string]*Burst[E]{}}
}

// Add takes an event. It returns a burst that has to be handed over first, because as many keys are open as may be; nil
// for none. It joins what is due and was not taken.
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

// Due takes the burst whose time came first, if any has come; nil for none.
func (j *Joiner[E]) Due(now time.Time) *Burst[E] {
	now = j.advance(now)
	b, at := j.next()
	if b == nil || at.After(now) {
		return nil
	}
	return j.take(b)
}

// Next is when a burst will be due; false when none is open.
func (j *Joiner[E]) Next() (time.Time, bool) {
	b, at := j.next()
	return at, b != nil
}

// Oldest is the burst whose first event came before those of all others, nil when none is open.
func (j *Joiner[E]) Oldest() *Burst[E] { return j.oldest }

// TakeOldest takes that burst.
func (j *Joiner[E]) TakeOldest() *Burst[E] {
	if j.oldest == nil {
		return nil
	}
	return j.take(j.oldest)
}

// Open is how many keys are open.
func (j *Joiner[E]) Open() int { return len(j.open) }

func (j *Joiner[E]) advance(now time.Time) time.Time {
	if now.After(j.now) {
		j.now = now
	}
	return j.now
}

// next is the burst that is due first, and when.
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

// take removes b.
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
