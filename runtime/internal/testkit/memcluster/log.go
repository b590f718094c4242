package memcluster

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// maxRead is the maximum size of one read in bytes. A single entry can be larger.
const maxRead = 8 << 20

// A sharedLog is a log in one generation of the cluster. The cluster's step guards all fields except entries, which is
// safe for concurrent use.
type sharedLog struct {
	entries   store.EventLog
	retention store.LogOptions
	deleted   store.Position // position up to which Retain has deleted
	followers []*Log
}

// A Log is one store's view of a log. It implements [engine.Log]. It is notified of other stores' appends
// asynchronously.
type Log struct {
	s    *Store
	name string
	of   *sharedLog // never changes: a new generation needs a new Log

	mu       sync.Mutex // held during calls to Appended, to preserve the order
	appended func([]store.Entry)
	told     store.Position
	seen     time.Time // when the last read for new entries began
	coming   bool      // whether a notification is pending
}

var _ engine.Log = (*Log)(nil)

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	if o.MaxBytes > 0 {
		return nil, fmt.Errorf("memcluster: log %q: MaxBytes is for stores of one process", name)
	}
	l, err := query(ctx, s, "OpenLog", func(c *Cluster) (*Log, error) {
		of, err := c.log(name, store.LogOptions{MaxAge: o.MaxAge, MaxCount: o.MaxCount})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		l := s.logs[name]
		if l == nil || l.of != of {
			_, head, _ := of.entries.Bounds(ctx) // a log in memory never fails
			l = &Log{s: s, name: name, of: of, told: head, seen: time.Now()}
			s.logs[name] = l
			of.followers = append(of.followers, l)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.appended = o.Appended
		return l, nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// log returns the log with the given name in the current generation and sets its retention.
func (c *Cluster) log(name string, retention store.LogOptions) (*sharedLog, error) {
	inner := fmt.Sprintf("%d %s", c.epoch, name)
	entries, err := c.db.OpenLog(context.Background(), inner, retention)
	if err != nil {
		return nil, err
	}
	if c.logs[name] == nil {
		c.logs[name] = &sharedLog{entries: entries}
	}
	c.logs[name].retention = retention
	return c.logs[name], nil
}

// BeginEpoch begins a new generation, as a restored database does. It drops the last lost entries of each log and ends
// all leases and shard ownerships.
func (c *Cluster) BeginEpoch(lost int) error {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	return c.beginEpochs(lost)
}

func (c *Cluster) beginEpochs(lost int) error {
	old := c.logs
	c.epoch++
	c.logs = map[string]*sharedLog{}
	clear(c.leases)
	for of := range c.shards {
		c.shards[of] = 0
	}
	for name, was := range old {
		of, err := c.log(name, was.retention)
		if err != nil {
			return err
		}
		_, head, _ := was.entries.Bounds(context.Background())
		b, err := was.entries.Read(context.Background(), 0, int(head)-lost)
		if err != nil {
			return err
		}
		for _, e := range b.Entries {
			if _, err := of.entries.Append(context.Background(), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// append appends e. If above is not nil, it works like AppendOnce. err may be an error of [store.Repeats].
func (of *sharedLog) append(ctx context.Context, e store.Entry, above *store.Position) (a appendResult, err error) {
	if above != nil {
		a.at, a.fresh, err = of.entries.AppendOnce(ctx, e, *above)
		return a, err
	}
	a.at, err = of.entries.Append(ctx, e)
	a.fresh = err == nil
	return a, err
}

// An appendResult is the result of append.
type appendResult struct {
	at    store.Position
	fresh bool
}

// Append implements [store.EventLog].
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a, err := l.append(ctx, "Append", e, nil)
	return a.at, err
}

// AppendOnce implements [store.EventLog].
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	a, err := l.append(ctx, "AppendOnce", e, &above)
	return a.at, a.fresh, err
}

func (l *Log) append(ctx context.Context, op string, e store.Entry, above *store.Position) (a appendResult, err error) {
	var stands error // an existing entry is not a failed step
	err = l.s.do(ctx, op+" "+l.name, func(c *Cluster) error {
		if c.logs[l.name] != l.of {
			return engine.ErrNewEpoch
		}
		a, stands = l.of.append(ctx, e, above)
		if a.fresh {
			l.of.notifyOthers(l)
		}
		return nil
	})
	if err != nil {
		return appendResult{}, err
	}
	if a.at > 0 {
		l.deliver(a.at)
	}
	return a, stands
}

// AppendGroup implements [engine.Shared].
func (s *Store) AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]engine.Appended, error) {
	done, err := query(ctx, s, "AppendGroup "+log, func(c *Cluster) ([]engine.Appended, error) {
		of := c.logs[log]
		if of == nil {
			return nil, fmt.Errorf("memcluster: log %q: %w", log, engine.ErrNoLog)
		}
		done := make([]engine.Appended, len(group))
		for i := range group {
			var above *store.Position
			if group[i].Once {
				above = &group[i].Above
			}
			a, err := of.append(ctx, group[i].Entry, above)
			if err != nil && !errors.Is(err, events.ErrIDReused) {
				return nil, err // the cluster is closed
			}
			done[i] = engine.Appended{Position: a.at, Fresh: a.fresh, Err: err}
		}
		of.notifyOthers(nil)
		return done, nil
	})
	s.mu.Lock()
	l := s.logs[log]
	s.mu.Unlock()
	if l != nil {
		l.deliver(0) // the appending store receives the entries immediately
	}
	return done, err
}

// notifyOthers notifies all followers except but, which has appended the entry.
func (of *sharedLog) notifyOthers(but *Log) {
	for _, f := range of.followers {
		if f != but {
			f.notify()
		}
	}
}

// notify makes the log deliver new entries after the latency.
func (l *Log) notify() {
	l.s.mu.Lock()
	f, closed := l.s.faults, l.s.closed
	l.s.mu.Unlock()
	if f.Deaf || closed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.coming {
		return
	}
	l.coming = true
	arrive := func() {
		l.mu.Lock()
		l.coming = false
		l.mu.Unlock()
		if l.s.reachable("news " + l.name) {
			l.deliver(0)
		}
	}
	if f.Latency > 0 {
		time.AfterFunc(f.Latency, arrive)
		return
	}
	go arrive()
}

// reachable reports whether notifications reach the store.
func (s *Store) reachable(op string) bool {
	s.mu.Lock()
	f, closed := s.faults, s.closed
	s.mu.Unlock()
	return !closed && !f.Deaf && (f.Fail == nil || f.Fail(op) == nil)
}

// deliver passes new entries to Appended. It does nothing if all entries up to need have already been passed.
func (l *Log) deliver(need store.Position) (head store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if need > 0 && l.told >= need {
		return l.told
	}
	began := time.Now()
	for {
		b, err := l.of.entries.Read(context.Background(), l.told, 512)
		if err != nil {
			return l.told // the cluster is closed: no more entries are delivered
		}
		if len(b.Entries) == 0 {
			l.told, l.seen = b.Head, began
			return l.told
		}
		if l.appended != nil {
			l.appended(b.Entries)
		}
		l.told = b.Entries[len(b.Entries)-1].Position
	}
}

// CatchUp implements [engine.Log].
func (l *Log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	if err := l.checkEpoch(ctx, "CatchUp"); err != nil {
		return 0, err
	}
	return l.deliver(0), nil
}

// checkEpoch returns ErrNewEpoch unless the log belongs to the current generation.
func (l *Log) checkEpoch(ctx context.Context, op string) error {
	return l.s.do(ctx, op+" "+l.name, func(c *Cluster) error {
		if c.logs[l.name] != l.of {
			return engine.ErrNewEpoch
		}
		return nil
	})
}

// Seen implements [engine.Log]. If notifications reach the store and all entries have been delivered, it returns the
// current time.
func (l *Log) Seen() time.Time {
	now := time.Now()
	here := l.s.reachable("news " + l.name)
	_, head, _ := l.of.entries.Bounds(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if here && l.told == head {
		l.seen = now
	}
	return l.seen
}

// Read implements [store.EventLog]. It returns only entries that have been passed to Appended.
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	if err := l.checkEpoch(ctx, "Read"); err != nil {
		return store.Batch{}, err
	}
	l.mu.Lock()
	told := l.told
	l.mu.Unlock()
	b, err := l.of.entries.Read(ctx, after, limit)
	if err != nil {
		return b, err
	}
	size := 0
	for i := range b.Entries {
		if size += recent.Size(&b.Entries[i]); i > 0 && size > maxRead {
			b.Entries = b.Entries[:i]
			break
		}
	}
	b.Head = min(b.Head, told)
	b.Oldest = min(b.Oldest, told+1)
	b.Entries = b.Entries[:sort.Search(len(b.Entries), func(i int) bool { return b.Entries[i].Position > told })]
	return b, nil
}

// Bounds implements [store.EventLog].
func (l *Log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if err := l.checkEpoch(ctx, "Bounds"); err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest, _, err = l.of.entries.Bounds(ctx)
	return min(oldest, l.told+1), l.told, err
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	if err := l.checkEpoch(ctx, "Proof"); err != nil {
		return 0, err
	}
	return l.of.entries.Proof(ctx, p)
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.of.entries.Epoch() }

// Retain implements [engine.Shared]. Expired entries disappear immediately in memory. Retain only tracks their
// deletion.
func (s *Store) Retain(ctx context.Context, h engine.ShardFence, limit int) (more bool, err error) {
	return query(ctx, s, "Retain", func(c *Cluster) (more bool, err error) {
		if h.Shard.Topic != engine.RetentionTopic {
			return false, engine.ErrFenced
		}
		if err := c.checkFence(h); err != nil {
			return false, err
		}
		left := store.Position(max(limit, 0))
		for _, of := range c.logs {
			oldest, _, err := of.entries.Bounds(ctx)
			if err != nil {
				return false, err
			}
			n := min(oldest-1-of.deleted, left)
			of.deleted += n
			left -= n
			more = more || of.deleted < oldest-1
		}
		return more, nil
	})
}
