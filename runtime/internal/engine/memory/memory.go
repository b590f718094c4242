// Package memory implements an engine in memory. [New] returns the engine of a single process, the default of servers
// and clients; a [DB] is for tests that simulate several processes. The package starts no goroutines and works in a
// testing/synctest bubble.
//
// It makes no promise of compatibility.
package memory

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/changes"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A DB has the records and logs that engines share. It outlives them.
type DB struct {
	exclusive bool
	life      atomic.Uint64 // changes while mu is held
	told      *changes.List

	// mu is held for one step: a commit, a page of records, the opening of a log, a new life. It is never held during a
	// wait or a call of Appended.
	mu      sync.Mutex
	clock   clock
	records records
	logs    map[string]*memlog.Log
}

// NewDB returns an empty DB.
func NewDB() *DB {
	db := &DB{told: changes.New(), logs: map[string]*memlog.Log{}}
	db.records.init()
	db.life.Store(rand.Uint64()>>1 + 1)
	return db
}

// Open returns the engine of one more process.
func (db *DB) Open() *Engine { return &Engine{db: db} }

// New returns an exclusive engine with its own empty DB.
func New() *Engine {
	db := NewDB()
	db.exclusive = true
	return db.Open()
}

// An Engine is the [engine.Engine] of one process.
type Engine struct {
	db     *DB
	closed atomic.Bool // changes while db.mu is held
	life   uint64      // of the latest Enter; guarded by db.mu
}

var _ engine.Engine = (*Engine)(nil)

// do runs f as one step.
func (e *Engine) do(ctx context.Context, f func(db *DB) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.db.mu.Lock()
	defer e.db.mu.Unlock()
	if e.closed.Load() {
		return store.ErrClosed
	}
	return f(e.db)
}

// doEntered is do for a step that needs the current life.
func (e *Engine) doEntered(ctx context.Context, f func(db *DB) error) error {
	return e.do(ctx, func(db *DB) error {
		if e.life != db.life.Load() {
			return engine.ErrNewLife
		}
		return f(db)
	})
}

// Changes implements [engine.Engine]. The DB remembers [changes.MaxNames] names at most.
func (e *Engine) Changes(ctx context.Context, since engine.Mark, wait time.Duration) (engine.Changed, error) {
	return e.db.told.Wait(ctx, since, wait, func() error {
		return e.doEntered(ctx, func(*DB) error { return nil })
	})
}

// Clock implements [engine.Engine].
func (e *Engine) Clock(ctx context.Context) (now time.Time, err error) {
	err = e.do(ctx, func(db *DB) error {
		now = db.clock.now()
		return nil
	})
	return now, err
}

// Enter implements [engine.Engine].
func (e *Engine) Enter(ctx context.Context) (life uint64, err error) {
	err = e.do(ctx, func(db *DB) error {
		life = db.life.Load()
		e.life = life
		return nil
	})
	return life, err
}

// NewLife implements [engine.Engine]. It deletes all live records in one step.
func (e *Engine) NewLife(ctx context.Context) error {
	return e.do(ctx, func(db *DB) error {
		db.records.deleteLive(db.clock.now())
		db.life.Add(1)
		db.told.Reset()
		return nil
	})
}

// Exclusive implements [engine.Engine].
func (e *Engine) Exclusive() bool { return e.db.exclusive }

// Ping implements [engine.Engine].
func (e *Engine) Ping(ctx context.Context) error {
	return e.do(ctx, func(*DB) error { return nil })
}

// Close implements [engine.Engine]. The DB calls no Appended of the process after Close has returned.
func (e *Engine) Close() error {
	for _, l := range e.close() { // outside the step: a log may be calling Appended
		l.Leave(e)
		if e.db.exclusive {
			l.Close()
		}
	}
	e.db.told.Wake()
	return nil
}

func (e *Engine) close() (logs []*memlog.Log) {
	e.db.mu.Lock()
	defer e.db.mu.Unlock()
	e.closed.Store(true)
	for _, l := range e.db.logs {
		logs = append(logs, l)
	}
	return logs
}

// A clock is the system's clock, but never goes back: if the system's clock is set back, it continues from its latest
// answer with the elapsed time. The zero clock is ready for use.
type clock struct {
	read   time.Time // of the system's clock, with a monotonic reading
	answer time.Time // at that time
}

func (c *clock) now() time.Time {
	now := time.Now()
	next := c.answer.Add(now.Sub(c.read))
	if wall := now.Round(0); next.Before(wall) {
		next = wall
	}
	c.read, c.answer = now, next
	return next
}
