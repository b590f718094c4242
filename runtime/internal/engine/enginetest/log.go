package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

// testLogs runs the suite of stores on an engine's logs, and the tests of what only engines promise.
func testLogs(t *testing.T, c Config) {
	open := func(t *testing.T) store.Store {
		e := c.Fresh(t)()
		enter(t, e)
		return &logStore{e, c.Durable}
	}
	t.Run("Store", func(t *testing.T) {
		if c.Age == nil {
			storetest.TestStore(t, open)
			return
		}
		storetest.TestStoreOfClock(t, open, func(t *testing.T, s store.Store, by time.Duration) { c.Age(t, s.(*logStore).e, by) })
	})
	c.run(t, processTests)
	c.run(t, groupTests)
	c.run(t, epochTests)
}

// A logStore shows the logs of an engine as a [store.Store].
type logStore struct {
	e       engine.Engine
	durable bool
}

func (s *logStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.e.OpenLog(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return eventLog{l}, nil
}

func (s *logStore) Durable() bool                  { return s.durable }
func (s *logStore) Ping(ctx context.Context) error { return s.e.Ping(ctx) }
func (s *logStore) Close() error                   { return s.e.Close() }

// An eventLog shows a log of an engine as a [store.EventLog].
type eventLog struct{ engine.Log }

func (l eventLog) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	done, err := l.append(ctx, engine.Append{Entry: e})
	return done.Position, err
}

func (l eventLog) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	done, err := l.append(ctx, engine.Append{Entry: e, Once: true, Above: above})
	if err == nil {
		err = done.Err
	}
	return done.Position, done.Fresh, err
}

func (l eventLog) append(ctx context.Context, a engine.Append) (engine.Appended, error) {
	done, err := l.Log.Append(ctx, a)
	if err != nil {
		return engine.Appended{}, err
	}
	return done[0], nil
}
