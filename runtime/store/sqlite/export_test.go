package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Plan is how SQLite would run the query.
func (s *Store) Plan(query string, args ...any) (plan []string, err error) {
	rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return nil, err
		}
		plan = append(plan, detail)
	}
	return plan, rows.Err()
}

// Stall keeps the writer busy until that many writes wait behind it, which then form one group.
func (s *Store) Stall(t *testing.T) (release func(writes int)) {
	entered, leave := make(chan struct{}), make(chan struct{})
	go s.writer.do(context.Background(), func(context.Context, *session) error {
		close(entered)
		<-leave
		return nil
	}, nil)
	<-entered
	return func(writes int) {
		s.AwaitQueued(writes)
		close(leave)
	}
}

// LimitPages makes the file refuse to grow beyond n pages, as a full disk would.
func (s *Store) LimitPages(n int) error {
	return s.writer.do(context.Background(), setting(fmt.Sprintf("PRAGMA max_page_count = %d", n)), nil)
}

// Pages returns how many pages the file has.
func (s *Store) Pages() (n int, err error) {
	err = s.read.QueryRow("PRAGMA page_count").Scan(&n)
	return n, err
}

func setting(pragma string) func(context.Context, *session) error {
	return func(ctx context.Context, w *session) error {
		var n int
		return w.conn.QueryRowContext(ctx, pragma).Scan(&n)
	}
}

// GiveUpAfter makes a write fail after that many tries to begin a transaction.
func (s *Store) GiveUpAfter(tries int32) { s.writer.patience.Store(tries) }

// Each writes n members of a group one by one, as after a failure of the group.
func (s *Store) Each(n int) (errs []error) {
	group := make([]*write, n)
	for i := range group {
		group[i] = &write{apply: func(context.Context, *session) error { return nil }, done: make(chan struct{})}
	}
	s.writer.each(group)
	for _, x := range group {
		errs = append(errs, x.err)
	}
	return errs
}

// Rows is how many entries lie in the file.
func (s *Store) Rows() (n int, err error) {
	err = s.read.QueryRow("SELECT count(*) FROM entries").Scan(&n)
	return n, err
}

// SweepSome deletes one step of what a log of the store has evicted.
func SweepSome(l store.EventLog) (more bool, err error) {
	return l.(*Log).sweepSome(context.Background())
}

// AwaitQueued returns once that many writes wait.
func (s *Store) AwaitQueued(writes int) {
	for {
		s.writer.mu.Lock()
		n := len(s.writer.queue)
		s.writer.mu.Unlock()
		if n >= writes {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// FailCommit appends to the log named log what is refused at its COMMIT only, under the id
// "unstored", and tells whether that became visible.
func (s *Store) FailCommit() (visible bool, err error) {
	err = s.writer.do(context.Background(), func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
		// To those who come after it in the group, it seems to have appended.
		e := store.Entry{EventID: "unstored", Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"n":1}`)}
		if err := (&appending{log: s.logs["log"], group: []member{{engine.Append{Entry: e}, audience(nil)}}, done: make([]engine.Appended, 1)}).apply(ctx, w); err != nil {
			return err
		}
		_, err := w.exec(ctx, "INSERT INTO entries (log, position, appended, event_id, timestamp, data, cursor, audience, sum) VALUES (999, 1, 1, '', '', x'', '', x'', 0)")
		return err
	}, func() { visible = true })
	return visible, err
}

// Pragma asks the connection that writes.
func (s *Store) Pragma(text string) (value string, err error) {
	err = s.writer.do(context.Background(), func(ctx context.Context, w *session) error {
		return w.conn.QueryRowContext(ctx, "PRAGMA "+text).Scan(&value)
	}, nil)
	return value, err
}

// CheckReferences makes SQLite refuse entries of logs that do not exist.
func (s *Store) CheckReferences() error {
	_, err := s.writer.session.conn.ExecContext(context.Background(), "PRAGMA foreign_keys = ON")
	return err
}

// Transactions returns the number of transactions that have begun.
func (s *Store) Transactions() (n uint64, err error) {
	err = s.writer.do(context.Background(), func(_ context.Context, w *session) error {
		n = w.transaction
		return nil
	}, nil)
	return n, err
}

// Exec runs a statement by the connection that writes, while nothing else does.
func (s *Store) Exec(statement string) error {
	_, err := s.writer.session.conn.ExecContext(context.Background(), statement)
	return err
}

// LimitLength makes SQLite refuse values of more than n bytes.
func (s *Store) LimitLength(n int) error {
	_, err := driver.Limit(s.writer.session.conn, codes.SQLITE_LIMIT_LENGTH, n)
	return err
}

// SweepRecords deletes one step of the records whose time has come.
func (s *Store) SweepRecords() (more bool, err error) {
	return s.engine.sweepSome(context.Background())
}

// RecordRows returns how many records and tombstones are in the file.
func (s *Store) RecordRows() (n int, err error) {
	err = s.read.QueryRow("SELECT count(*) FROM records").Scan(&n)
	return n, err
}

// Statements of records.
const (
	GetRecords  = getRecords
	ScanRecords = scanRecords
	MovedKeys   = movedKeys
)

// CountSQL is what quotas ask.
const CountSQL = countSQL
