// Package memlog implements a log in memory: entries in order, bounded by age, count and bytes. Package store/memory
// and the engine in memory build their logs on it. Start with [New].
//
// The package makes no promise of compatibility.
package memlog

import (
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Log is an ordered list of entries with observers. It is safe for concurrent use.
//
// Entries are in a slice that only grows at its end. Eviction moves start, and frees memory by a copy of the retained
// entries to a new slice. So Read and observers share parts of the slice without a copy, and such a part never changes.
type Log struct {
	epoch uint64

	mu        sync.Mutex
	retention store.LogOptions // without Appended
	observers []observer
	entries   []store.Entry
	stamps    []time.Time // of appending, parallel to entries
	start     int         // first retained one in entries
	bytes     int         // size of the retained entries
	dead      int         // size of the entries before them
	evicted   uint32      // proof of the entry before entries[0]; 0 if there was never one
	head      store.Position
	closed    bool
	expiry    *time.Timer // while entries wait for their age; nil otherwise
	ids       *idIndex    // nil until the first append with Once
}

// An observer is called for each new entry.
type observer struct {
	by       any
	appended func([]store.Entry)
}

// New returns an empty log. Its only observer is o.Appended.
func New(o store.LogOptions) *Log {
	l := &Log{epoch: rand.Uint64() | 1}
	l.Configure(nil, o)
	return l
}

// Configure sets the retention of the log and replaces the observer of by with o.Appended; nil removes it.
//
// The log calls an observer with new entries in the step that makes them visible, before Append returns. An observer
// must not block and must not call the log.
func (l *Log) Configure(by any, o store.LogOptions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe(by, o.Appended)
	o.Appended = nil
	l.retention = o
	now := time.Now()
	l.evict(now)
	l.await(now)
}

// Leave removes the observer of by. The log does not call it after Leave has returned.
func (l *Log) Leave(by any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe(by, nil)
}

func (l *Log) observe(by any, appended func([]store.Entry)) {
	l.observers = slices.DeleteFunc(l.observers, func(o observer) bool { return o.by == by })
	if appended != nil {
		l.observers = append(l.observers, observer{by, appended})
	}
}

// Close ends the log. Append, Read and Proof return [store.ErrClosed] after it.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// Append appends a group in one step; see [engine.Log.Append].
func (l *Log) Append(group ...engine.Append) ([]engine.Appended, error) {
	done := make([]engine.Appended, len(group))
	if err := l.appendGroup(group, make([]idKey, len(group)), done); err != nil {
		return nil, err
	}
	return done, nil
}

// AppendOne appends an entry in one step. Unlike Append it allocates nothing for its result.
func (l *Log) AppendOne(a engine.Append) (engine.Appended, error) {
	group, keys, done := [1]engine.Append{a}, [1]idKey{}, [1]engine.Appended{}
	if err := l.appendGroup(group[:], keys[:], done[:]); err != nil {
		return engine.Appended{}, err
	}
	return done[0], nil
}

// appendGroup appends a group. keys and done are empty and have its length; it fills done.
func (l *Log) appendGroup(group []engine.Append, keys []idKey, done []engine.Appended) error {
	for i := range group {
		if group[i].Once {
			keys[i] = keyOf(&group[i].Entry)
		}
	}
	repeated, err := l.append(group, keys, done)
	if err != nil {
		return err
	}
	for _, r := range repeated { // entries never change, so their data are compared without the lock
		done[r.index].Err = store.Repeats(r.stands.Position, r.stands.Data, group[r.index].Entry.Data)
	}
	return nil
}

// A repetition is an entry of a group that the log already has.
type repetition struct {
	index  int
	stands *store.Entry
}

// append is the step that makes the fresh entries of a group visible. It sets Position and Fresh in done.
func (l *Log) append(group []engine.Append, keys []idKey, done []engine.Appended) (repeated []repetition, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, store.ErrClosed
	}
	now := time.Now()
	l.evict(now)
	before := len(l.entries)
	for i := range group {
		a := &group[i]
		if a.Once {
			if stands := l.find(keys[i], a.Above); stands != nil {
				done[i].Position = stands.Position
				repeated = append(repeated, repetition{i, stands})
				continue
			}
		} else if l.ids != nil {
			keys[i] = keyOf(&a.Entry)
		}
		l.add(a.Entry, keys[i], now)
		done[i] = engine.Appended{Position: l.head, Fresh: true}
	}
	if fresh := l.entries[before:len(l.entries):len(l.entries)]; len(fresh) > 0 {
		l.evict(now)
		l.await(now)
		for _, o := range l.observers {
			o.appended(fresh)
		}
	}
	return repeated, nil
}

func (l *Log) add(e store.Entry, k idKey, now time.Time) {
	l.head++
	e.Position = l.head
	if l.ids != nil {
		l.ids.put(k, e.Position, len(l.entries)-l.start)
	}
	l.entries = append(l.entries, e)
	l.stamps = append(l.stamps, now)
	l.bytes += recent.Size(&e)
}

// Read returns up to limit entries after a position; see [store.EventLog.Read].
func (l *Log) Read(after store.Position, limit int) (store.Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return store.Batch{}, store.ErrClosed
	}
	oldest := l.bounds()
	b := store.Batch{Oldest: oldest, Head: l.head}
	if after >= l.head {
		return b, nil
	}
	if after+1 < oldest {
		b.Gap = true
		after = oldest - 1
	}
	from := l.start + int(after+1-oldest)
	to := min(from+max(limit, 0), len(l.entries))
	b.Entries = l.entries[from:to:to]
	return b, nil
}

// Bounds returns the first retained position and the last one.
func (l *Log) Bounds() (oldest, head store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bounds(), l.head
}

// Proof returns the proof of the entry at p; see [store.EventLog.Proof].
func (l *Log) Proof(p store.Position) (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, store.ErrClosed
	}
	oldest := l.bounds()
	switch at := l.start + int(p-oldest); {
	case p == 0 || p > l.head || p+1 < oldest:
		return 0, nil
	case at < 0:
		return l.evicted, nil
	default:
		return l.entries[at].Proof(), nil
	}
}

// Epoch returns a random number that identifies the log. It is never 0.
func (l *Log) Epoch() uint64 { return l.epoch }

func (l *Log) bounds() store.Position {
	if l.retention.MaxAge > 0 {
		l.evict(time.Now())
	}
	return l.oldest()
}

// oldest returns the first retained position as of the latest eviction.
func (l *Log) oldest() store.Position { return l.head - store.Position(len(l.entries)-l.start) + 1 }

// await sets a timer that evicts entries by age although nobody appends or reads. Eviction is late by at most a
// sixteenth of MaxAge, up to an hour, and a second. The timer runs only while there are entries.
func (l *Log) await(now time.Time) {
	age := l.retention.MaxAge
	if l.expiry != nil || age <= 0 || l.closed || l.start == len(l.entries) {
		return
	}
	due := max(l.stamps[l.start].Add(age).Sub(now), 0) + min(age/16, time.Hour) + time.Second
	l.expiry = time.AfterFunc(due, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := time.Now()
		l.expiry = nil
		if !l.closed {
			l.evict(now)
			l.await(now)
		}
	})
}

// deadBytes bounds the memory of evicted entries, however few are retained.
const deadBytes = 1 << 20

// evict moves start past the entries that retention no longer covers, and frees them when they are half of the slice.
func (l *Log) evict(now time.Time) {
	start := l.start
	if n := l.retention.MaxCount; n > 0 && len(l.entries)-l.start > n {
		l.start = len(l.entries) - n
	}
	if age := l.retention.MaxAge; age > 0 {
		limit := now.Add(-age)
		if live := l.stamps[l.start:]; len(live) > 0 && live[0].Before(limit) {
			l.start += sort.Search(len(live), func(i int) bool { return !live[i].Before(limit) })
		}
	}
	for i := start; i < len(l.entries); i++ {
		if i >= l.start {
			if l.retention.MaxBytes <= 0 || l.bytes <= l.retention.MaxBytes || i == len(l.entries)-1 {
				break
			}
			l.start++
		}
		n := recent.Size(&l.entries[i])
		l.bytes, l.dead = l.bytes-n, l.dead+n
	}
	if dead := l.start; dead > 0 && (dead >= len(l.entries)-dead || l.dead > l.bytes/4 && l.dead > deadBytes) {
		l.evicted = l.entries[dead-1].Proof()
		l.entries = append(make([]store.Entry, 0, 2*(len(l.entries)-dead)+8), l.entries[dead:]...)
		l.stamps = append(make([]time.Time, 0, 2*(len(l.stamps)-dead)+8), l.stamps[dead:]...)
		l.start, l.dead = 0, 0
	}
	if l.ids != nil && len(l.entries) == 0 {
		*l.ids = idIndex{}
	}
}
