package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// groupMax bounds the number of writes in one transaction.
const groupMax = 512

// While another connection writes, each attempt to begin a transaction waits busyStep in SQLite, and a write fails
// with [ErrBusy] after busyTries attempts: 5 s in all.
const (
	busyStep  = 250 // milliseconds
	busyTries = 20
)

// A write is one atomic change. apply runs inside a transaction and may run twice if the first transaction failed
// because of another write. committed runs after the COMMIT, in the order of the writes, and makes the change visible
// in memory.
type write struct {
	apply     func(context.Context, *session) error
	committed func()

	state atomic.Int32 // one of the states
	tries int32        // attempts to begin a transaction while it waited; used by the writer's goroutine
	err   error
	done  chan struct{}
}

// States of a write. It waits until a transaction takes it, unless its caller withdraws it first.
const (
	waiting int32 = iota
	taken
	withdrawn
)

// A session is the writer's connection with its prepared statements.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (s *session) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := s.stmts[query]; st != nil {
		return st, nil
	}
	st, err := s.conn.PrepareContext(ctx, query)
	if err == nil {
		s.stmts[query] = st
	}
	return st, err
}

func (s *session) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// row scans the first row of a query into dest.
func (s *session) row(ctx context.Context, query string, args []any, dest ...any) error {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(dest...)
}

// A writer owns the writing connection and the goroutine that uses it.
type writer struct {
	session  *session
	ended    chan struct{}
	patience atomic.Int32 // busyTries, or fewer in tests

	mu     sync.Mutex
	queue  []*write
	closed bool
	wake   chan struct{} // capacity 1
}

func newWriter(conn *sql.Conn) *writer {
	w := &writer{session: &session{conn, map[string]*sql.Stmt{}}, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.patience.Store(busyTries)
	go w.run()
	return w
}

// do queues a write and returns when it is durable or has failed. If ctx ends before its transaction has begun, the
// write is withdrawn and does not happen. do therefore returns when ctx ends, however long another connection keeps
// writing.
func (w *writer) do(ctx context.Context, apply func(context.Context, *session) error, committed func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := &write{apply: apply, committed: committed, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.queue = append(w.queue, x)
	w.mu.Unlock()
	w.signal()
	select {
	case <-x.done:
	case <-ctx.Done():
		if x.state.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		<-x.done
	}
	return classify(x.err)
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close rejects further writes, finishes queued ones and closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.ended
	for _, st := range w.session.stmts {
		st.Close()
	}
	return w.session.conn.Close()
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		some, closed := w.waits()
		switch {
		case some:
			w.turn()
		case closed:
			return
		default:
			<-w.wake
		}
	}
}

// waits removes withdrawn writes from the queue and reports whether any are left.
func (w *writer) waits() (some, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(x *write) bool { return x.state.Load() == withdrawn })
	return len(w.queue) > 0, w.closed
}

// turn begins a transaction and performs the waiting writes in it.
func (w *writer) turn() {
	if err := w.begin(); err != nil {
		for _, x := range w.undone(err) {
			x.fail(err)
		}
		return
	}
	group := w.take()
	err := w.finish(group)
	switch {
	case err == nil:
		for _, x := range group {
			x.settle()
		}
	case len(group) == 1:
		group[0].fail(err)
	default:
		w.each(group)
	}
}

// undone removes and returns the writes that fail because no transaction could begin. These are all writes
// or, if another connection is writing, those with too many attempts.
func (w *writer) undone(err error) (failed []*write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := errors.Is(classify(err), ErrBusy)
	w.queue = slices.DeleteFunc(w.queue, func(x *write) bool {
		if x.tries++; busy && x.tries < w.patience.Load() {
			return false
		}
		if x.state.CompareAndSwap(waiting, taken) {
			failed = append(failed, x)
		}
		return true
	})
	return failed
}

// take takes up to groupMax waiting writes.
func (w *writer) take() (group []*write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), groupMax)
	for _, x := range w.queue[:n] {
		if x.state.CompareAndSwap(waiting, taken) {
			group = append(group, x)
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

// each performs the writes of a failed group in separate transactions, so that only those at fault fail. If a
// transaction cannot begin, the remaining writes fail with it, because otherwise each would wait in turn.
func (w *writer) each(group []*write) {
	for i, x := range group {
		if err := w.begin(); err != nil {
			for _, x := range group[i:] {
				x.fail(err)
			}
			return
		}
		if err := w.finish([]*write{x}); err != nil {
			x.fail(err)
		} else {
			x.settle()
		}
	}
}

func (x *write) fail(err error) {
	x.err = err
	close(x.done)
}

func (x *write) settle() {
	if x.committed != nil {
		x.committed()
	}
	close(x.done)
}

// Transactions do not depend on a caller's context: once begun, a transaction is finished.

func (w *writer) begin() error {
	_, err := w.session.exec(context.Background(), "BEGIN IMMEDIATE")
	return err
}

// finish applies the writes in the current transaction, and commits it or rolls it back.
func (w *writer) finish(group []*write) (err error) {
	ctx := context.Background()
	defer func() {
		if err != nil {
			// SQLite may have rolled back by itself; the error of a second rollback does not matter.
			w.session.exec(ctx, "ROLLBACK")
		}
	}()
	for _, x := range group {
		if err := x.apply(ctx, w.session); err != nil {
			return err
		}
	}
	_, err = w.session.exec(ctx, "COMMIT")
	return err
}
