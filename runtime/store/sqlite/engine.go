package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/changes"
)

// Engine returns the store as an engine of logs and records, the same one for each call. Closing it closes the store.
func (s *Store) Engine() engine.Engine { return s.engine }

// A storeEngine implements [engine.Engine]. One process has the file, so what all processes share is in memory: the life
// and the changes.
type storeEngine struct {
	s         *Store
	get, scan *sql.Stmt // of the pool for reading
	changes   *changes.List
	life      atomic.Uint64
	entered   atomic.Uint64 // the life at the latest Enter, 0 before

	mu    sync.Mutex
	clock time.Time // that Clock has returned last

	// The writer's goroutine alone uses these.
	stamp int64 // of the last transaction that changed records and was committed
	turn  turn
}

// A turn is a transaction of the writer that changes records.
type turn struct {
	transaction uint64
	stamp       int64
	life        uint64 // as of this transaction
}

// openEngine deletes the leases of earlier processes and reads the state of the records.
func openEngine(ctx context.Context, s *Store, conn *sql.Conn) (err error) {
	e := &storeEngine{s: s, changes: changes.New()}
	if e.get, err = s.read.PrepareContext(ctx, getRecords); err != nil {
		return err
	}
	if e.scan, err = s.read.PrepareContext(ctx, scanRecords); err != nil {
		return err
	}
	err = inTransaction(ctx, conn, func() error {
		if _, err := conn.ExecContext(ctx, "DELETE FROM records WHERE key >= ? AND key < ?", engine.LivePrefix, end(engine.LivePrefix)); err != nil {
			return err
		}
		var life int64
		err := conn.QueryRowContext(ctx, "SELECT number, stamp FROM life").Scan(&life, &e.stamp)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("%w: the table life is empty", ErrCorrupt)
		}
		e.life.Store(uint64(life))
		return err
	})
	s.engine = e
	return err
}

// join comes before a change of records in the writer's transaction. It replaces the stamp of the file, and returns an
// error if that is not the stamp of the last transaction that joined: somebody has put back another copy of the file.
func (e *storeEngine) join(ctx context.Context, w *session) error {
	if e.turn.transaction == w.transaction {
		return nil
	}
	t := turn{w.transaction, rand.Int64(), e.life.Load()}
	result, err := w.exec(ctx, "UPDATE life SET stamp = ? WHERE stamp = ?", t.stamp, e.stamp)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: the file was restored to an older state while it was open: it lacks records; restart the process (docs/deployment.md)", ErrCorrupt)
	}
	if err == nil {
		e.turn = t
	}
	return err
}

// landed is called after the COMMIT of a transaction that joined.
func (e *storeEngine) landed() {
	e.stamp = e.turn.stamp
	e.life.Store(e.turn.life)
}

// judge returns [engine.ErrNewLife] if the life is not the one of the writer's transaction.
func (e *storeEngine) judge(w *session, life uint64) error {
	present := e.life.Load()
	if e.turn.transaction == w.transaction {
		present = e.turn.life
	}
	if life != present {
		return engine.ErrNewLife
	}
	return nil
}

// here returns an error if the store is closed or has begun a new life since Enter.
func (e *storeEngine) here(ctx context.Context) error {
	if _, err := e.s.queries(ctx); err != nil {
		return err
	}
	if e.entered.Load() != e.life.Load() {
		return engine.ErrNewLife
	}
	return nil
}

// Changes implements [engine.Engine]. Marks are valid until the store is closed.
func (e *storeEngine) Changes(ctx context.Context, since engine.Mark, wait time.Duration) (engine.Changed, error) {
	return e.changes.Wait(ctx, since, wait, func() error { return e.here(ctx) })
}

// Clock implements [engine.Engine]. It is the clock of the process, and stands still after that was set back.
func (e *storeEngine) Clock(ctx context.Context) (time.Time, error) {
	if _, err := e.s.queries(ctx); err != nil {
		return time.Time{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now().Round(0); now.After(e.clock) { // without its monotonic reading, as others compare it
		e.clock = now
	}
	return e.clock, nil
}

// Enter implements [engine.Engine].
func (e *storeEngine) Enter(ctx context.Context) (life uint64, err error) {
	if _, err := e.s.queries(ctx); err != nil {
		return 0, err
	}
	life = e.life.Load()
	e.entered.Store(life)
	return life, nil
}

// NewLife implements [engine.Engine].
func (e *storeEngine) NewLife(ctx context.Context) error {
	x := renewing{e: e}
	if err := e.s.writer.do(ctx, x.apply, x.committed); err != nil {
		return fmt.Errorf("begin a new life: %w", err)
	}
	return nil
}

// A renewing is one call of NewLife or BeginEpochs.
type renewing struct {
	e      *storeEngine
	epochs map[int64]uint64 // by the id of the log
}

// apply begins the new life in the writer's transaction.
func (x *renewing) apply(ctx context.Context, w *session) error {
	if err := x.e.join(ctx, w); err != nil {
		return err
	}
	life := newNumber()
	if _, err := w.exec(ctx, "UPDATE life SET number = ?", int64(life)); err != nil {
		return err
	}
	x.e.turn.life = life
	keys, err := collect[string](ctx, w, "SELECT key FROM records WHERE key >= ? AND key < ? AND value IS NOT NULL", engine.LivePrefix, end(engine.LivePrefix))
	if err != nil {
		return err
	}
	now := time.Now()
	for _, k := range keys {
		r := recordRow{key: k, revision: life}
		if err := r.bury(ctx, w, now, deleteIfOnce, 0); err != nil {
			return err
		}
	}
	ids, err := collect[int64](ctx, w, "SELECT id FROM logs")
	if err != nil {
		return err
	}
	x.epochs = make(map[int64]uint64, len(ids))
	for _, id := range ids {
		x.epochs[id] = newNumber()
		if _, err := w.exec(ctx, "UPDATE logs SET epoch = ? WHERE id = ?", int64(x.epochs[id]), id); err != nil {
			return err
		}
	}
	return nil
}

func (x *renewing) committed() {
	x.e.landed()
	x.e.s.mu.Lock()
	for _, l := range x.e.s.logs {
		l.mu.Lock()
		l.epoch = x.epochs[l.id]
		l.mu.Unlock()
	}
	x.e.s.mu.Unlock()
	x.e.changes.Reset()
}

// Exclusive implements [engine.Engine]: the lock next to the file keeps other processes away.
func (e *storeEngine) Exclusive() bool { return true }

// Ping implements [engine.Engine].
func (e *storeEngine) Ping(ctx context.Context) error { return e.s.Ping(ctx) }

// Close implements [engine.Engine].
func (e *storeEngine) Close() error { return e.s.Close() }
