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

// maxGroup is the maximum number of writes in one transaction.
const maxGroup = 512

// While another connection is writing, each attempt to begin a transaction waits for busyStep in SQLite. A write fails
// with [ErrBusy] after busyTries attempts, which take 5 s in total.
const (
	busyStep  = 250 // milliseconds
	busyTries = 20
)

// A write is an atomic change. The function apply is called within a transaction, and again if the first transaction
// fails because of another write. The function committed is called after the COMMIT, in the order of the writes, and
// makes the change visible in memory.
type write struct {
	apply     func(context.Context, *session) error
	committed func()

	state atomic.Int32 // one of the states
	tries int32        // attempts to begin a transaction while it waited; used by the writer's goroutine
	err   error
	done  chan struct{}
}

// States of a write. A write is waiting until it becomes part of a transaction or its caller withdraws it.
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

// exec executes a statement and returns the number of rows that it modified.
func (s *session) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// queryRow scans the first row of a query into dest.
func (s *session) queryRow(ctx context.Context, query string, args []any, dest ...any) error {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(dest...)
}

// A writer owns the write connection and the goroutine that uses it.
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

// submit queues a write and waits until it is durable or has failed. If ctx is done before the transaction has begun,
// submit withdraws the write. It can therefore be canceled even if another connection keeps writing.
func (w *writer) submit(ctx context.Context, apply func(context.Context, *session) error, committed func()) error {
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

// close rejects further writes, completes the queued writes and closes the connection.
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
		some, closed := w.hasWaiting()
		switch {
		case some:
			w.runTransaction()
		case closed:
			return
		default:
			<-w.wake
		}
	}
}

// hasWaiting removes withdrawn writes from the queue and reports whether it still contains writes.
func (w *writer) hasWaiting() (some, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(x *write) bool { return x.state.Load() == withdrawn })
	return len(w.queue) > 0, w.closed
}

// runTransaction performs the waiting writes in one transaction. If that fails, it performs them separately.
func (w *writer) runTransaction() {
	if err := w.begin(); err != nil {
		for _, x := range w.takeFailed(err) {
			x.fail(err)
		}
		return
	}
	group := w.takeGroup()
	err := w.applyAll(group)
	switch {
	case err == nil:
		for _, x := range group {
			x.settle()
		}
	case len(group) == 1:
		group[0].fail(err)
	default:
		w.runSeparately(group)
	}
}

// takeFailed removes and returns the writes that fail because a transaction could not begin. If another connection is
// writing, only writes with too many attempts fail. Otherwise all writes fail.
func (w *writer) takeFailed(err error) (failed []*write) {
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

// takeGroup removes up to maxGroup waiting writes from the queue.
func (w *writer) takeGroup() (group []*write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxGroup)
	for _, x := range w.queue[:n] {
		if x.state.CompareAndSwap(waiting, taken) {
			group = append(group, x)
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

// runSeparately performs the writes of a failed group in separate transactions, so only the faulty writes fail. If a
// transaction cannot begin, all remaining writes fail, because each of them would otherwise have to wait.
func (w *writer) runSeparately(group []*write) {
	for i, x := range group {
		if err := w.begin(); err != nil {
			for _, x := range group[i:] {
				x.fail(err)
			}
			return
		}
		if err := w.applyAll([]*write{x}); err != nil {
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

// Transactions do not depend on a caller's context. Once begun, a transaction is always completed.

func (w *writer) begin() error {
	_, err := w.session.exec(context.Background(), "BEGIN IMMEDIATE")
	return err
}

// applyAll applies the writes in the current transaction, and commits it or rolls it back.
func (w *writer) applyAll(group []*write) (err error) {
	ctx := context.Background()
	defer func() {
		if err != nil {
			// SQLite may already have rolled back. The error of a second rollback can be ignored.
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
