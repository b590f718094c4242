package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A bed is an outbox whose rows are moved to logs in memory.
type bed struct {
	Table
	t    *testing.T
	name string // of the schema
	pool *pgxpool.Pool

	mu    sync.Mutex
	moved map[string][]string // by log
	fails map[string]error    // by log or id
	told  strings.Builder
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, name: pgtest.Schema(t), moved: map[string][]string{}, fails: map[string]error{}}
	b.Schema, b.Logger = b.name, slog.New(slog.NewTextHandler(&b.told, nil))
	pgtest.Exec(t, pgtest.URL(t), "CREATE SCHEMA "+b.name, b.qualify(Tables))
	var err error
	if b.pool, err = pgxpool.New(t.Context(), pgtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	return b
}

func (b *bed) Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error {
	rows, err := b.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return f(rows)
}

func (b *bed) Write(ctx context.Context, sql string, args ...any) (int64, error) {
	done, err := b.pool.Exec(ctx, sql, args...)
	return done.RowsAffected(), err
}

func (b *bed) Move(ctx context.Context, log string, rows []Row) ([]error, error) {
	if err := b.fails[log]; err != nil {
		return nil, err
	}
	var ids []int64
	var events []string
	seen, size := map[string]bool{}, 0
	for i := range rows {
		e := &rows[i].Entry
		k := e.EventID + " " + store.Audience(e.Targets)
		size += len(e.Data) + len(e.Meta)
		if seen[k] || i > 0 && size > groupBytes {
			b.t.Errorf("%s is moved twice in one step, or with %d bytes", e.EventID, size)
		}
		seen[k] = true
	}
	for i := range rows {
		if err := b.fails[rows[i].Entry.EventID]; err != nil {
			return nil, err
		}
		ids, events = append(ids, rows[i].ID()), append(events, rows[i].Entry.EventID)
	}
	_, err := b.Write(ctx, b.qualify(`DELETE FROM @.outbox WHERE id = ANY ($1)`), ids)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved[log] = append(b.moved[log], events...)
	return nil, err
}

func (b *bed) step(limit int) engine.Sequenced {
	b.t.Helper()
	done, err := b.Step(b.t.Context(), b, 1, limit, func(ctx context.Context, rows []Row) (Settled, error) {
		return b.Settle(ctx, b, rows, func(context.Context, store.Outgoing) (fault, err error) { return nil, nil })
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return done
}

func (b *bed) drain() {
	b.t.Helper()
	for b.step(GroupMax).More {
	}
}

// put inserts a row; more are further columns and their values.
func (b *bed) put(log, id string, more ...string) {
	b.t.Helper()
	columns, values := "", ""
	for i := 0; i < len(more); i += 2 {
		columns, values = columns+", "+more[i], values+", "+more[i+1]
	}
	pgtest.Exec(b.t, pgtest.URL(b.t), fmt.Sprintf(`INSERT INTO %s.outbox (log, event_id, timestamp, data, once, above%s)
		VALUES ('%s', '%s', '2026-01-01T00:00:00Z', '{}', true, 0%s)`, b.name, columns, log, id, values))
}

func (b *bed) wants(log string, ids ...string) {
	b.t.Helper()
	if !slices.Equal(b.moved[log], ids) {
		b.t.Errorf("to %s were moved %q, want %q", log, b.moved[log], ids)
	}
}

// REP-20: a role that may insert rows can choose any transaction number: a full look, once a minute, finds the row.
// Another server may reuse numbers, which causes a full look.
func TestREP20ChosenTransaction(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.drain()
	b.put("log", "of the future", "tx", "9223372036854775806")
	b.drain()
	b.put("log", "of the past", "tx", "-9223372036854775807")
	b.put("log", "long ended", "tx", "1")
	b.drain()
	b.wants("log", "of the future")
	b.sweeping.now.whole = time.Time{}
	b.drain()
	b.put("log", "of another server", "tx", "2")
	b.sweeping.now.start = time.Unix(1, 0)
	b.drain()
	b.wants("log", "of the future", "of the past", "long ended", "of another server")
}

// REP-20: a role that may insert rows can also choose any insertion time: no row counts as older than it can be, and
// none blocks others.
func TestREP20ChosenTime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.fails["stuck"] = errors.New("it cannot be appended to")
	times := []string{"infinity", "-infinity", "294000-01-01", "4713-01-01 BC"}
	for _, at := range times {
		b.put("log", at, "at", "'"+at+"'")
		b.put("stuck", at, "at", "'"+at+"'")
	}
	if done := b.step(GroupMax); done.Oldest < 0 || done.Oldest > time.Hour {
		t.Errorf("the oldest has waited for %v", done.Oldest)
	}
	b.wants("log", times...)
}

// REP-20: rows that are moved together have different ids and a bounded size; refused rows are found one by one, and
// all rows of an unopened log are rejected, in the order of the outbox.
func TestREP20Groups(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.fails["refused"] = fmt.Errorf("too many stars: %w", engine.ErrRefused)
	b.fails["none"] = engine.ErrNoLog
	for _, id := range []string{"1", "2", "1", "refused", "3"} {
		b.put("log", id)
		b.put("none", "none "+id)
	}
	b.put("log", "1", "targets", `'["sub_1"]'`)
	b.put("log", "large", "meta", `convert_to('{"k":"' || repeat('x', 5000000) || '"}', 'UTF8')`)
	b.put("log", "4")
	b.drain()
	b.wants("log", "1", "2", "1", "3", "1", "large", "4")
	rejected, err := b.Rejected(t.Context(), b, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rejected {
		ids = append(ids, r.EventID)
		if r.Log == "log" && !strings.Contains(r.Reason, "too many stars") || r.Log == "none" && !strings.Contains(r.Reason, "no server has registered") {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"none 1", "none 2", "none 1", "refused", "none refused", "none 3"}; !slices.Equal(ids, want) {
		t.Errorf("rejected were %q, want %q", ids, want)
	}
}

// REP-20: if settling fails as a whole, no row is skipped: the next look sees them all.
func TestREP20SettlingFails(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.drain()
	b.put("log", "1")
	errTest := errors.New("the commit fails")
	done, err := b.Step(t.Context(), b, 1, GroupMax, func(context.Context, []Row) (Settled, error) { return Settled{}, errTest })
	if !errors.Is(err, errTest) || done.Found != 1 || done.Oldest <= 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	b.drain()
	b.wants("log", "1")
	// A log that cannot be appended to is skipped by the others, and retried.
	b.fails["stuck"] = errTest
	b.put("stuck", "s1")
	b.put("log", "2")
	if done := b.step(GroupMax); done.Found != 2 || done.Oldest <= 0 {
		t.Errorf("%+v", done)
	}
	b.wants("log", "1", "2")
	b.wants("stuck")
	if !strings.Contains(b.told.String(), "it cannot be appended to its log") {
		t.Errorf("logged was %s", b.told.String())
	}
	delete(b.fails, "stuck")
	b.sweeping.now.stuck["stuck"].until = time.Time{}
	b.drain()
	b.wants("stuck", "s1")
}
