// Package memory stores logs and subscriptions in memory. It is the default for servers. All data is lost when the
// process exits. Start with [New].
package memory

import (
	"context"
	"math/rand/v2"
	"sort"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Store is an in-memory [store.Store] and [store.SubscriptionStore].
type Store struct {
	mu     sync.Mutex
	logs   map[string]*Log
	subs   subscriptions
	closed bool
}

// New returns an empty store.
func New() *Store { return &Store{logs: map[string]*Log{}} }

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	l := s.logs[name]
	if l == nil {
		l = NewLog(o)
		s.logs[name] = l
		return l, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options = o
	now := time.Now()
	l.evict(now)
	l.scheduleEviction(now)
	return l, nil
}

// Durable implements [store.Store]. It returns false.
func (s *Store) Durable() bool { return false }

// Ping implements [store.Pinger].
func (s *Store) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return nil
}

// Close closes the store and its logs. It can be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.logs {
		l.mu.Lock()
		l.closed = true
		if l.expiry != nil {
			l.expiry.Stop()
		}
		l.mu.Unlock()
	}
	return nil
}

// A Log is an in-memory [store.EventLog] with limits for age, count and bytes.
//
// Entries are appended to a slice and never modified. Eviction advances start, and frees memory by copying the retained
// entries to a new slice. Read can therefore return a subslice without copying it.
type Log struct {
	epoch uint64

	mu      sync.Mutex
	options store.LogOptions
	entries []store.Entry
	stamps  []time.Time // append times, parallel to entries
	start   int         // index of the first retained entry
	bytes   int         // size of the retained entries
	dead    int         // size of the entries before them
	evicted uint32      // proof of the entry before entries[0]; 0 for none
	head    store.Position
	closed  bool
	expiry  *time.Timer    // set while entries wait for their age; nil otherwise
	ids     *idIndex       // nil until the first AppendOnce
	one     [1]store.Entry // the argument of Appended
}

// NewLog returns an empty log that does not belong to a store.
func NewLog(o store.LogOptions) *Log {
	return &Log{epoch: rand.Uint64() | 1, options: o}
}

// Append implements [store.EventLog].
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkOpen(ctx); err != nil {
		return 0, err
	}
	l.add(&e, time.Now())
	return e.Position, nil
}

// checkOpen returns an error if the log is closed or ctx is done. The caller must hold l.mu.
func (l *Log) checkOpen(ctx context.Context) error {
	if l.closed {
		return store.ErrClosed
	}
	return ctx.Err()
}

// add assigns the position, stores the entry and calls Appended. The caller must hold l.mu.
func (l *Log) add(e *store.Entry, now time.Time) {
	l.head++
	e.Position = l.head
	if l.ids != nil {
		l.ids.put(keyOf(e), e.Position, len(l.entries)-l.start)
	}
	l.entries = append(l.entries, *e)
	l.stamps = append(l.stamps, now)
	l.bytes += recent.Size(e)
	l.evict(now)
	l.scheduleEviction(now)
	if l.options.Appended != nil {
		l.one[0] = *e
		l.options.Appended(l.one[:])
		l.one[0] = store.Entry{}
	}
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkOpen(ctx); err != nil {
		return store.Batch{}, err
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

// Bounds implements [store.EventLog]. It never fails.
func (l *Log) Bounds(context.Context) (oldest, head store.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bounds(), l.head, nil
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkOpen(ctx); err != nil {
		return 0, err
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

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.epoch }

func (l *Log) bounds() store.Position {
	if l.options.MaxAge > 0 {
		l.evict(time.Now())
	}
	return l.oldest()
}

// oldest returns the first position that the latest eviction retained.
func (l *Log) oldest() store.Position { return l.head - store.Position(len(l.entries)-l.start) + 1 }

// scheduleEviction sets a timer that evicts entries by age, even without appends or reads. Eviction is delayed by a
// sixteenth of MaxAge, at most an hour, plus a second. The timer runs only while the log has entries.
func (l *Log) scheduleEviction(now time.Time) {
	age := l.options.MaxAge
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
			l.scheduleEviction(now)
		}
	})
}

// maxDeadBytes is the size in bytes up to which evict can keep evicted entries in memory.
const maxDeadBytes = 1 << 20

// evict advances start past the entries that exceed the retention limits. It frees them once they make up half of the
// slice, or more than maxDeadBytes and a quarter of the retained bytes.
func (l *Log) evict(now time.Time) {
	start := l.start
	if n := l.options.MaxCount; n > 0 && len(l.entries)-l.start > n {
		l.start = len(l.entries) - n
	}
	if age := l.options.MaxAge; age > 0 {
		limit := now.Add(-age)
		if live := l.stamps[l.start:]; len(live) > 0 && live[0].Before(limit) {
			l.start += sort.Search(len(live), func(i int) bool { return !live[i].Before(limit) })
		}
	}
	for i := start; i < len(l.entries); i++ {
		if i >= l.start {
			if l.options.MaxBytes <= 0 || l.bytes <= l.options.MaxBytes || i == len(l.entries)-1 {
				break
			}
			l.start++
		}
		n := recent.Size(&l.entries[i])
		l.bytes, l.dead = l.bytes-n, l.dead+n
	}
	if dead := l.start; dead > 0 && (dead >= len(l.entries)-dead || l.dead > l.bytes/4 && l.dead > maxDeadBytes) {
		l.evicted = l.entries[dead-1].Proof()
		l.entries = append(make([]store.Entry, 0, 2*(len(l.entries)-dead)+8), l.entries[dead:]...)
		l.stamps = append(make([]time.Time, 0, 2*(len(l.stamps)-dead)+8), l.stamps[dead:]...)
		l.start, l.dead = 0, 0
	}
	if l.ids != nil && len(l.entries) == 0 {
		*l.ids = idIndex{}
	}
}
