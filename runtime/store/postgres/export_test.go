package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Age makes every entry and action of the store older.
func (s *Store) Age(ctx context.Context, by time.Duration) error {
	_, err := s.pool.Exec(ctx, s.in(`UPDATE @.actions SET at = at - $1::bigint * interval '1 microsecond'`), by.Microseconds())
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, s.in(`UPDATE @.entries SET appended = appended - $1::bigint * interval '1 microsecond'`), by.Microseconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		l.fresh = time.Time{}
		l.mu.Unlock()
	}
	return err
}

// Raw returns the one value that a query finds.
func (s *Store) Raw(t testing.TB, query string) (b []byte) {
	t.Helper()
	if err := s.pool.QueryRow(context.Background(), s.in(query)).Scan(&b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Asked is how often the store asked for the heads of logs.
func (s *Store) Asked() int64 { return s.questions.Load() }

// Idle tells that no connection is in use and nobody has to be notified.
func (s *Store) Idle() bool {
	s.tail.mu.Lock()
	defer s.tail.mu.Unlock()
	return len(s.tail.marked) == 0 && !s.tail.sending && len(s.tail.changed) == 0 && s.pool.Stat().AcquiredConns() == 0
}

// OldSchema makes a schema as the build that knew that many migrations left it.
func OldSchema(t testing.TB, dsn, schema string, version int) {
	t.Helper()
	ctx := context.Background()
	s := &Store{schema: schema}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	all := []string{"CREATE SCHEMA " + schema, storeTable,
		fmt.Sprintf(`INSERT INTO @.store VALUES (1, %d, 1, 1, '', '', 3)`, version)}
	for _, m := range migrations[:version] {
		all = append(all, m.sql)
	}
	for _, sql := range all {
		if _, err := conn.PgConn().Exec(ctx, s.in(sql)).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
}
