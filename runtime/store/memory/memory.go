// Package memory keeps logs, subscriptions and cursors in memory: the default of servers and clients,
// gone with the process. Start with [New] and [NewCursors].
package memory

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Store is a [store.Store] and a [store.SubscriptionStore] in memory.
type Store struct {
	mu      sync.Mutex
	logs    map[string]*Log
	subs    subscriptions
	actions Actions
	closed  bool
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
	l.log.Configure(nil, o)
	return l, nil
}

// Durable reports false.
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

// Close ends the store and its logs. It is idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.logs {
		l.log.Close()
	}
	return nil
}

// A Log is a [store.EventLog] in memory, bounded by age, count and bytes.
type Log struct{ log *memlog.Log }

// NewLog returns an empty log outside any store.
func NewLog(o store.LogOptions) *Log { return &Log{memlog.New(o)} }

// Append implements [store.EventLog].
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	done, err := l.append(ctx, engine.Append{Entry: e})
	return done.Position, err
}

// AppendOnce implements [store.EventLog].
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	done, err := l.append(ctx, engine.Append{Entry: e, Once: true, Above: above})
	if err == nil {
		err = done.Err
	}
	return done.Position, done.Fresh, err
}

func (l *Log) append(ctx context.Context, a engine.Append) (engine.Appended, error) {
	if err := ctx.Err(); err != nil {
		return engine.Appended{}, err
	}
	return l.log.AppendOne(a)
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	if err := ctx.Err(); err != nil {
		return store.Batch{}, err
	}
	return l.log.Read(after, limit)
}

// Bounds implements [store.EventLog]; it never fails.
func (l *Log) Bounds(context.Context) (oldest, head store.Position, err error) {
	oldest, head = l.log.Bounds()
	return oldest, head, nil
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return l.log.Proof(p)
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.log.Epoch() }
