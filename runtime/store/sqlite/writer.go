package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// groupMax bounds how many writes one transaction takes.
const groupMax = 512

// A write is one atomic change. apply runs inside a transaction and may run twice when the first
// transaction failed because of another write; committed runs after COMMIT, in the order of the
// writes, and is where the change becomes visible in memory.
type write struct {
	apply     func(context.Context, *session) error
	committed func()

	state atomic.Int32 // 0 waiting, 1 taken, 2 withdrawn
	err   error
	done  chan struct{}
}

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

// writer owns the connection that writes and the goroutine that uses it.
type writer struct {
	session *session
	ended   chan struct{}

	mu     sync.Mutex
	queue  []*write
	closed bool
	wake   chan struct{} // capacity 1
}

func newWriter(conn *sql.Conn) *writer {
	w := &writer{session: &session{conn, map[string]*sql.Stmt{}}, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	go w.run()
	return w
}

// do queues a write and returns when it is durable or has failed. A write whose context ends
// before it is taken is withdrawn: it does not happen.
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
		if x.state.CompareAndSwap(0, 2) {
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
		group, closed := w.take()
		if len(group) > 0 {
			w.commit(group)
			continue
		}
		if closed {
			return
		}
		<-w.wake
	}
}

// take claims up to groupMax writes that wait.
func (w *writer) take() (group []*write, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), groupMax)
	for _, x := range w.queue[:n] {
		if x.state.CompareAndSwap(0, 1) {
			group = append(group, x)
		}
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	return group, w.closed && rest == 0
}

// commit writes the group in one transaction. When that fails, each write is tried in one of its
// own, so that only those fail that are at fault.
func (w *writer) commit(group []*write) {
	if err := w.transact(group); err != nil {
		if len(group) == 1 {
			group[0].err = err
		} else {
			for _, x := range group {
				if x.err = w.transact([]*write{x}); x.err == nil {
					w.settle(x)
				} else {
					close(x.done)
				}
			}
			return
		}
	}
	for _, x := range group {
		if x.err != nil {
			close(x.done)
			continue
		}
		w.settle(x)
	}
}

func (w *writer) settle(x *write) {
	if x.committed != nil {
		x.committed()
	}
	close(x.done)
}

func (w *writer) transact(group []*write) (err error) {
	ctx := context.Background() // a taken write is finished, whatever became of its caller
	if _, err := w.session.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
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
