package postgres

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
)

// Age makes every entry of the store older.
func (s *Store) Age(ctx context.Context, by time.Duration) error {
	_, err := s.pool.Exec(ctx, s.qualify(`UPDATE @.entries SET appended = appended - $1::bigint * interval '1 microsecond'`), by.Microseconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		l.fresh = time.Time{}
		l.mu.Unlock()
	}
	return err
}

// Raw returns the result of a query with one value.
func (s *Store) Raw(t testing.TB, query string) (b []byte) {
	t.Helper()
	if err := s.pool.QueryRow(context.Background(), s.qualify(query)).Scan(&b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Asked returns how often the store queried the heads of logs.
func (s *Store) Asked() int64 { return s.questions.Load() }

// Hear handles a notification that a log has grown.
func (s *Store) Hear(log string) {
	s.mu.Lock()
	id := s.logs[log].id
	s.mu.Unlock()
	s.tail.handleNotification(" " + strconv.FormatInt(id, 36))
}

// Idle reports that no connection is in use and no notification is pending.
func (s *Store) Idle() bool {
	s.tail.mu.Lock()
	defer s.tail.mu.Unlock()
	return len(s.tail.marked) == 0 && !s.tail.sending && len(s.tail.changed) == 0 && s.pool.Stat().AcquiredConns() == 0
}

// blocks returns the number of database blocks that a statement touches, and rolls it back.
func (s *Store) blocks(t testing.TB, sql string, args ...any) (blocks float64) {
	t.Helper()
	ctx := context.Background()
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	var text []byte
	if err := tx.QueryRow(ctx, s.qualify("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql), args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan map[string]any
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	p := plans[0].Plan
	return p["Shared Hit Blocks"].(float64) + p["Shared Read Blocks"].(float64)
}

// LookBlocks returns the number of database blocks that the next look at the outbox touches per range.
func (s *Store) LookBlocks(t testing.TB) float64 {
	t.Helper()
	sql, args, ranges := s.outbox.Looking(outbox.GroupMax)
	return s.blocks(t, sql, args...) / float64(ranges)
}

// DueBlocks returns the number of database blocks touched to find the entries that a step of retention may delete,
// and DeleteBlocks those touched to delete nothing of a log.
func (s *Store) DueBlocks(t testing.TB, limit int) float64 {
	t.Helper()
	return s.blocks(t, dueSQL, int64(limit))
}

func (s *Store) DeleteBlocks(t testing.TB, log string) float64 {
	t.Helper()
	var id, kept int64
	err := s.pool.QueryRow(context.Background(), s.qualify("SELECT id, kept FROM @.logs WHERE name = $1"), log).Scan(&id, &kept)
	if err != nil {
		t.Fatal(err)
	}
	return s.blocks(t, deleteSQL, id, kept)
}

// Look makes the tail look at every log, as a notification for all logs does.
func (s *Store) Look() { s.tail.handleNotification(" " + allLogs) }

// Queries returns how often a connection was used.
func (s *Store) Queries() int64 { return s.pool.Stat().AcquireCount() }

// HoldAppends delays appends to all logs until release is called.
func (s *Store) HoldAppends() (release func()) {
	n := s.committer
	for held := false; !held; time.Sleep(time.Millisecond) { // until the committer is idle
		n.mu.Lock()
		held = !n.running
		n.running = true
		n.mu.Unlock()
	}
	return func() { n.wg.Go(n.run) }
}

// HoldTelling delays deliveries to Appended of a log until release is called.
func (s *Store) HoldTelling(log string) (release func()) {
	s.mu.Lock()
	l := s.logs[log]
	s.mu.Unlock()
	l.turn <- struct{}{}
	return func() { <-l.turn }
}

// Waiting returns the number of waiting appends.
func (s *Store) Waiting() int {
	s.committer.mu.Lock()
	defer s.committer.mu.Unlock()
	return s.committer.waiting
}

// counting counts the statements of stores, by schema.
type counting struct {
	mu   sync.Mutex
	sent map[string]int
}

var statements = &counting{sent: map[string]int{}}

func init() { tracer = statements }

func (c *counting) count(sql string) {
	_, rest, ok := strings.Cut(sql, `"`)
	if schema, _, of := strings.Cut(rest, `".`); ok && of {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[schema]++
	}
}

func (c *counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	c.count(d.SQL)
	return ctx
}

func (c *counting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counting) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c *counting) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	c.count(d.SQL)
}

func (c *counting) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Statements returns the number of statements on the tables of the store's schema.
func (s *Store) Statements() int {
	statements.mu.Lock()
	defer statements.mu.Unlock()
	return statements.sent[s.name]
}
