package enginetest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// The smallest engine that keeps all promises: everything is in plain maps and slices under one mutex. It shows what an
// engine has to do, without regard to speed. For one that a program can use, see package memory.
func TestSmallEngine(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Fresh: func(*testing.T) func() engine.Engine {
			s := &smallStore{records: map[string]smallRecord{}, logs: map[string]*smallLog{}, life: 1}
			return func() engine.Engine { return &small{s: s} }
		},
		Durable: true,
	})
}

// A smallStore has the data of all processes.
type smallStore struct {
	mu       sync.Mutex
	life     uint64
	revision uint64
	records  map[string]smallRecord
	told     []smallName
	logs     map[string]*smallLog
}

// A smallRecord is a record, or the memory of a deletion if its Value is nil.
type smallRecord struct {
	store.Record
	once  bool
	until time.Time // when it is deleted, or forgotten; zero means never
}

type smallName struct {
	name string
	at   time.Time
}

// small is the engine of a process.
type small struct {
	s      *smallStore
	life   uint64
	closed bool
}

// do runs f as one step: no other call sees a part of it.
func (e *small) do(ctx context.Context, f func(s *smallStore) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.closed {
		return store.ErrClosed
	}
	e.s.expire()
	return f(e.s)
}

// doInLife is do for calls that a new life refuses.
func (e *small) doInLife(ctx context.Context, f func(s *smallStore) error) error {
	return e.do(ctx, func(s *smallStore) error {
		if e.life != s.life {
			return engine.ErrNewLife
		}
		return f(s)
	})
}

// expire deletes records after their Until, and forgets deletions after TombstoneAge.
func (s *smallStore) expire() {
	now := time.Now()
	for key, r := range s.records {
		switch {
		case r.until.IsZero() || now.Before(r.until):
		case r.Value == nil:
			delete(s.records, key)
		default:
			s.write(store.Write{Key: key}, r.Call)
		}
	}
}

func (s *smallStore) write(w store.Write, call uint64) uint64 {
	s.revision++
	if w.Value == nil && (w.Once || s.records[w.Key].once) {
		delete(s.records, w.Key)
		return s.revision
	}
	r := smallRecord{store.Record{Key: w.Key, Value: w.Value, Revision: s.revision, Call: call}, w.Once, w.Until}
	if w.Value == nil {
		r.until = time.Now().Add(store.TombstoneAge)
	}
	s.records[w.Key] = r
	return s.revision
}

func (e *small) Get(ctx context.Context, _ store.Consistency, keys ...string) (found []store.Record, err error) {
	if len(keys) > store.MaxGet {
		return nil, fmt.Errorf("small: %d keys", len(keys))
	}
	err = e.do(ctx, func(s *smallStore) error {
		for _, key := range keys {
			r := s.records[key].Record
			r.Key = key
			found = append(found, r)
		}
		return nil
	})
	return found, err
}

func (e *small) Scan(ctx context.Context, prefix, after string, limit int) (found []store.Record, err error) {
	err = e.do(ctx, func(s *smallStore) error {
		for key, r := range s.records {
			if strings.HasPrefix(key, prefix) && key > after && r.Value != nil {
				found = append(found, r.Record)
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b store.Record) int { return cmp.Compare(a.Key, b.Key) })
	return found[:max(min(limit, len(found)), 0)], err
}

func (e *small) Commit(ctx context.Context, c *store.Commit) (revisions []uint64, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	err = e.doInLife(ctx, func(s *smallStore) error {
		var moved []string
		for _, g := range c.Guards {
			if s.records[g.Key].Revision != g.Revision {
				moved = append(moved, g.Key)
			}
		}
		for _, w := range c.Writes {
			if s.records[w.Key].Revision != w.On {
				moved = append(moved, w.Key)
			}
		}
		if moved != nil {
			return &store.ConflictError{Keys: moved}
		}
		for _, w := range c.Writes {
			revisions = append(revisions, s.write(w, c.Call))
		}
		for _, name := range c.Tell {
			s.told = append(s.told, smallName{name, time.Now()})
		}
		return nil
	})
	return revisions, err
}

// Changes looks every 5 ms. A mark is the life and how many names commits have told in all; names are never dropped.
func (e *small) Changes(ctx context.Context, since engine.Mark, wait time.Duration) (c engine.Changed, err error) {
	for end := time.Now().Add(wait); ; {
		c = engine.Changed{AsOf: time.Now()}
		err = e.doInLife(ctx, func(s *smallStore) error {
			life := strconv.FormatUint(s.life, 10) + " "
			c.Next = engine.Mark(life + strconv.Itoa(len(s.told)))
			if since == "" {
				return nil
			}
			number, ok := strings.CutPrefix(string(since), life)
			from, err := strconv.Atoi(number)
			if !ok || err != nil || from < 0 || from > len(s.told) {
				return engine.ErrCompacted
			}
			names := map[string]bool{}
			for _, n := range s.told[from:] {
				names[n.name] = true
			}
			c.Names = slices.Collect(maps.Keys(names))
			return nil
		})
		if err != nil || since == "" || len(c.Names) > 0 || !c.AsOf.Before(end) {
			return c, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}

// Clock does not go back because the system's clock does not, in a test.
func (e *small) Clock(ctx context.Context) (time.Time, error) { return time.Now(), e.Ping(ctx) }

func (e *small) Enter(ctx context.Context) (life uint64, err error) {
	err = e.do(ctx, func(s *smallStore) error {
		e.life = s.life
		return nil
	})
	return e.life, err
}

func (e *small) NewLife(ctx context.Context) error {
	return e.do(ctx, func(s *smallStore) error {
		for key, r := range s.records {
			if strings.HasPrefix(key, engine.LivePrefix) && r.Value != nil {
				s.write(store.Write{Key: key}, r.Call)
			}
		}
		s.life++
		return nil
	})
}

func (e *small) Exclusive() bool { return false }

func (e *small) Ping(ctx context.Context) error {
	return e.do(ctx, func(*smallStore) error { return nil })
}

func (e *small) Close() error {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.closed = true
	for _, l := range e.s.logs {
		delete(l.appended, e)
	}
	return nil
}
