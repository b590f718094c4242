package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Plan returns SQLite's plan for the query.
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

// Stall keeps the writer busy until that many writes wait, which then form one group.
func (s *Store) Stall(t *testing.T) (release func(writes int)) {
	entered, leave := make(chan struct{}), make(chan struct{})
	go s.writer.submit(context.Background(), func(context.Context, *session) error {
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
	return s.writer.submit(context.Background(), setting(fmt.Sprintf("PRAGMA max_page_count = %d", n)), nil)
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
	s.writer.runSeparately(group)
	for _, x := range group {
		errs = append(errs, x.err)
	}
	return errs
}

// Rows returns the number of entries in the file.
func (s *Store) Rows() (n int, err error) {
	err = s.read.QueryRow("SELECT count(*) FROM entries").Scan(&n)
	return n, err
}

// SweepSome deletes one step of a log's evicted entries.
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

// FailCommit appends to the log named log an entry with the id "unstored" that only the COMMIT refuses, and reports
// whether it became visible.
func (s *Store) FailCommit() (visible bool, err error) {
	err = s.writer.submit(context.Background(), func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
		// Later members of the group see it as appended.
		e := store.Entry{EventID: "unstored", Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"n":1}`)}
		if err := (&appendCall{log: s.logs["log"], entry: e, audience: audienceHash(nil)}).apply(ctx, w); err != nil {
			return err
		}
		_, err := w.exec(ctx, "INSERT INTO entries (log, position, appended, event_id, timestamp, data, cursor, audience, sum) VALUES (999, 1, 1, '', '', x'', '', x'', 0)")
		return err
	}, func() { visible = true })
	return visible, err
}

// Pragma queries the writing connection.
func (s *Store) Pragma(text string) (value string, err error) {
	err = s.writer.submit(context.Background(), func(ctx context.Context, w *session) error {
		return w.conn.QueryRowContext(ctx, "PRAGMA "+text).Scan(&value)
	}, nil)
	return value, err
}

// CheckReferences makes SQLite refuse entries of logs that do not exist.
func (s *Store) CheckReferences() error {
	_, err := s.writer.session.conn.ExecContext(context.Background(), "PRAGMA foreign_keys = ON")
	return err
}

// CountSQL is the query of quotas.
const CountSQL = countSQL

// OldestRow returns the first position in the file, from a given one on.
func (s *Store) OldestRow(log string, from int) (p store.Position, err error) {
	err = s.read.QueryRow("SELECT min(position) FROM entries WHERE log = (SELECT id FROM logs WHERE name = ?) AND position >= ?", log, from).Scan(&p)
	return p, err
}
