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

// A transaction takes up to groupMax writes, and more than one only if they change up to groupRows rows together.
const (
	groupMax  = 512
	groupRows = 4096
)

// While another connection writes, each try to begin a transaction waits that long in SQLite, and a
// write fails with [ErrBusy] after so many tries. Both make 5 s.
const (
	busyStep  = 250 // milliseconds
	busyTries = 20
)

// A write is one atomic change. apply runs inside a transaction and may run twice when the first
// transaction failed because of another write; committed runs after COMMIT, in the order of the
// writes, and is where the change becomes visible in memory.
type write struct {
	apply     func(context.Context, *session) error
	committed func()
	rows      int // that it changes at most

	state atomic.Int32 // one of the states
	tries int32        // to begin a transaction while it waited; of the writer's goroutine
	err   error
	done  chan struct{}
}

// The states of a write: it waits until a transaction has begun that takes it, unless it was
// withdrawn before.
const (
	waiting int32 = iota
	taken
	withdrawn
)

// A session is the writer's connection with its prepared statements.
type session struct {
	conn        *sql.Conn
	stmts       map[string]*sql.Stmt
	transaction uint64 // number of the latest transaction
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

// collect returns the rows of a query of one column.
func collect[T any](ctx context.Context, s *session, query string, args ...any) (all []T, err error) {
	st, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one T
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// writer owns the connection that writes and the goroutine that uses it.
type writer struct {
	session  *session
	ended    chan struct{}
	patience atomic.Int32 // busyTries, fewer in tests

	mu     sync.Mutex
	queue  []*write
	closed bool
	wake   chan struct{} // capacity 1
}

func newWriter(conn *sql.Conn) *writer {
	w := &writer{session: &session{conn: conn, stmts: map[string]*sql.Stmt{}}, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	w.patience.Store(busyTries)
	go w.run()
	return w
}

// do queues a write and returns when it is durable or has failed. A write whose context ends before
// its transaction has begun is withdrawn: it does not happen. So a context is honoured however long
// another connection keeps writing.
func (w *writer) do(ctx context.Context, apply func(context.Context, *session) error, committed func()) error {
	return w.doRows(ctx, 1, apply, committed)
}

// doRows is do for a write of several rows.
func (w *writer) doRows(ctx context.Context, rows int, apply func(context.Context, *session) error, committed func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := &write{apply: apply, committed: committed, rows: rows, done: make(chan struct{})}
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

// close takes no more writes, finishes those that are queued and closes the connection.
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

// waits drops what was withdrawn and tells whether anything is left.
func (w *writer) waits() (some, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(x *write) bool { return x.state.Load() == withdrawn })
	return len(w.queue) > 0, w.closed
}

// turn begins a transaction and writes in it what waits by then.
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

// undone are the writes that wait no longer when no transaction could be begun: all of them, or,
// when another connection writes, those that have waited long enough.
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

// take claims writes that wait, as many as one transaction takes.
func (w *writer) take() (group []*write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, rows := 0, 0
	for ; n < min(len(w.queue), groupMax); n++ {
		x := w.queue[n]
		if rows += x.rows; n > 0 && rows > groupRows {
			break
		}
		if x.state.CompareAndSwap(waiting, taken) {
			group = append(group, x)
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

// each writes the members of a failed group in transactions of their own, so that only those fail
// that are at fault. When none can be begun, it is the fault of none, and the rest fails with it:
// they must not wait one after the other.
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

// A transaction is not bound to a caller's context: once begun it is finished.

func (w *writer) begin() error {
	w.session.transaction++
	_, err := w.session.exec(context.Background(), "BEGIN IMMEDIATE")
	return err
}

// finish applies the writes in the transaction that has begun, and commits it or rolls it back.
func (w *writer) finish(group []*write) (err error) {
	ctx := context.Background()
	defer func() {
		if err != nil {
			// SQLite may have rolled back by itself; the error of a second rollback means nothing.
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
