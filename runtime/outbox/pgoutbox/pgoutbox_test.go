package pgoutbox_test

import (
	"context"
	"database/sql"
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
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openBox(t *testing.T, dsn, schema string, logger *slog.Logger) *pgoutbox.Outbox {
	t.Helper()
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	b, err := pgoutbox.Open(t.Context(), dsn, pgoutbox.Options{Schema: schema, Logger: logger})
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

// A pgxTx is an author's transaction by pgx, a sqlTx one by database/sql.
type pgxTx struct {
	box *pgoutbox.Outbox
	tx  pgx.Tx
}

func (x pgxTx) Emit(p store.Prepared) error { return x.box.EmitPgx(context.Background(), x.tx, p) }
func (x pgxTx) Commit() error               { return x.tx.Commit(context.Background()) }
func (x pgxTx) Rollback() error             { return x.tx.Rollback(context.Background()) }

type sqlTx struct {
	box *pgoutbox.Outbox
	*sql.Tx
}

func (x sqlTx) Emit(p store.Prepared) error { return x.box.EmitSQL(context.Background(), x.Tx, p) }

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func beginPgx(t *testing.T, box *pgoutbox.Outbox) enginetest.Transaction {
	t.Helper()
	tx, err := connect(t).Begin(t.Context())
	must(t, err)
	return pgxTx{box, tx}
}

func beginSQL(t *testing.T, box *pgoutbox.Outbox) enginetest.Transaction {
	t.Helper()
	db, err := sql.Open("pgx", pgtest.URL(t))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	tx, err := db.BeginTx(context.Background(), nil)
	must(t, err)
	return sqlTx{box, tx}
}

// REP-20, OB-1, OB-2: the suite of outboxes, with logs in memory and in another schema.
func TestREP20Suite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		open  func(t *testing.T) (a, b engine.Shared)
		begin func(*testing.T, *pgoutbox.Outbox) enginetest.Transaction
	}{
		{"memory", func(*testing.T) (a, b engine.Shared) {
			c := memcluster.New()
			return c.Open(), c.Open()
		}, beginPgx},
		{"postgres", func(t *testing.T) (a, b engine.Shared) {
			o := postgres.Options{Schema: pgtest.Schema(t), Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
			var two [2]engine.Shared
			for i := range two {
				s, err := postgres.Open(t.Context(), pgtest.URL(t), o)
				must(t, err)
				t.Cleanup(func() { s.Close() })
				two[i] = s
			}
			return two[0], two[1]
		}, beginSQL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			boxes, relays := map[engine.Shared]*pgoutbox.Outbox{}, map[engine.Shared]engine.Outbox{}
			enginetest.TestOutbox(t, enginetest.Shared{
				Open: func(t *testing.T) (a, b engine.Shared) {
					a, b = c.open(t)
					schema := pgtest.Schema(t)
					for _, s := range []engine.Shared{a, b} {
						boxes[s] = openBox(t, pgtest.URL(t), schema, nil)
						relays[s] = boxes[s].Relay(s)
					}
					return a, b
				},
				Begin:  func(t *testing.T, s engine.Shared) enginetest.Transaction { return c.begin(t, boxes[s]) },
				Outbox: func(_ *testing.T, s engine.Shared) engine.Outbox { return relays[s] },
			})
		})
	}
}

// prepared is an occurrence.
type prepared store.Outgoing

func (p prepared) Outgoing() store.Outgoing { return store.Outgoing(p) }

func occurrence(log, id string) prepared {
	return prepared{Log: log, Entry: store.Entry{EventID: id, Timestamp: events.NewTime(time.Unix(1, 0)), Data: []byte(`{"id":"` + id + `"}`)}}
}

// A rig is an outbox with its relay to logs in memory, and its owner.
type rig struct {
	t      *testing.T
	schema string
	box    *pgoutbox.Outbox
	store  *memcluster.Store
	relay  engine.Outbox
	hold   engine.ShardFence
	told   *logged
}

// A logged records messages of level warn or error.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newRig(t *testing.T, logs ...string) *rig {
	t.Helper()
	r := &rig{t: t, schema: pgtest.Schema(t), store: memcluster.New().Open(), told: &logged{}}
	r.box = openBox(t, pgtest.URL(t), r.schema, slog.New(slog.NewTextHandler(r.told, nil)))
	r.relay = r.box.Relay(r.store)
	for _, name := range logs {
		_, err := r.store.OpenLog(t.Context(), name, store.LogOptions{})
		must(t, err)
	}
	_, err := r.store.Establish(t.Context(), engine.OutboxTopic, 1)
	must(t, err)
	r.hold = claim(t, r.store)
	return r
}

func claim(t *testing.T, s engine.Shared) engine.ShardFence {
	t.Helper()
	l, err := s.Join(t.Context(), "relay", 10*time.Minute, nil, nil)
	must(t, err)
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.OutboxTopic}, Fence: l.Fence}
	won, err := s.Claim(t.Context(), l.Fence, []engine.ShardFence{{Shard: h.Shard}})
	if err != nil || len(won) != 1 {
		t.Fatal(won, err)
	}
	return h
}

// emit commits occurrences in one transaction.
func (r *rig) emit(all ...prepared) {
	r.t.Helper()
	tx := beginPgx(r.t, r.box)
	for _, p := range all {
		must(r.t, tx.Emit(p))
	}
	must(r.t, tx.Commit())
}

func good(context.Context, store.Outgoing) (fault, err error) { return nil, nil }

// step makes one step with a relay.
func (r *rig) step(relay engine.Outbox) (engine.Sequenced, error) {
	return relay.Sequence(r.t.Context(), r.hold, 512, good)
}

func (r *rig) drain() (rejected int) {
	r.t.Helper()
	for {
		done, err := r.step(r.relay)
		must(r.t, err)
		if rejected += done.Rejected; !done.More {
			return rejected
		}
	}
}

func (r *rig) ids(log string) (ids []string) {
	r.t.Helper()
	l, err := r.store.OpenLog(r.t.Context(), log, store.LogOptions{})
	must(r.t, err)
	_, err = l.(engine.Log).CatchUp(r.t.Context(), 1<<40)
	must(r.t, err)
	b, err := l.Read(r.t.Context(), 0, 5000)
	must(r.t, err)
	for _, e := range b.Entries {
		ids = append(ids, e.EventID)
	}
	return ids
}

func (r *rig) wants(log string, want ...string) {
	r.t.Helper()
	if got := r.ids(log); !slices.Equal(got, want) {
		r.t.Errorf("%s has %q, want %q", log, got, want)
	}
}

func (r *rig) waiting(rows, rejected int) time.Duration {
	r.t.Helper()
	got, oldest, aside, err := r.box.Waiting(r.t.Context())
	must(r.t, err)
	if got != rows || aside != rejected || (oldest > 0) != (rows > 0) {
		r.t.Errorf("%d rows wait, the oldest for %v, and %d are rejected; want %d and %d", got, oldest, aside, rows, rejected)
	}
	return oldest
}

// OB-3: a role that may insert rows can choose the insertion time. That affects neither the relay nor the count of
// waiting rows.
func TestOB3ChosenTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	for _, at := range []string{"-infinity", "infinity"} {
		pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+r.schema+`.outbox (log, event_id, timestamp, data, once, above, at)
			VALUES ('a', '`+at+`', '2026-01-01T00:00:00Z', '{}', false, 0, '`+at+`')`)
	}
	if rows, oldest, _, err := r.box.Waiting(t.Context()); rows != 2 || oldest != 0 || err != nil {
		t.Errorf("%d rows wait, the oldest for %v: %v", rows, oldest, err)
	}
	r.drain()
	r.wants("a", "-infinity", "infinity")
}

// A faulty store calls functions before and after each AppendGroup.
type faulty struct {
	*memcluster.Store
	around func(appends func() ([]engine.Appended, error)) ([]engine.Appended, error)
}

func (f faulty) AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]engine.Appended, error) {
	return f.around(func() ([]engine.Appended, error) { return f.Store.AppendGroup(ctx, log, group) })
}

var errTest = errors.New("the events' store is away")

// OB-1: after a crash between append and commit, rows are appended once more under their ids, including generated
// ones, and recognized; nothing is deleted before the append.
func TestOB1Crash(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	chosen := occurrence("a", "chosen")
	chosen.Once = true
	r.emit(occurrence("a", "1"), chosen, occurrence("b", "2"))
	crashed := r.box.Relay(faulty{r.store, func(appends func() ([]engine.Appended, error)) ([]engine.Appended, error) {
		done, err := appends()
		pgtest.Exec(t, pgtest.URL(t), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.locktype = 'advisory' AND a.query LIKE '%"`+r.schema+`"%' AND a.pid <> pg_backend_pid()`)
		return done, err
	}})
	if done, err := r.step(crashed); err == nil {
		t.Fatalf("the commit stands: %+v", done)
	}
	r.wants("a", "1", "chosen")
	r.waiting(3, 0)
	r.emit(occurrence("a", "3"))
	r.drain()
	r.wants("a", "1", "chosen", "3")
	r.wants("b", "2")
	r.waiting(0, 0)

	// A relay that fails before its append has deleted nothing, and returns an error.
	r.emit(occurrence("a", "4"))
	away := r.box.Relay(faulty{r.store, func(func() ([]engine.Appended, error)) ([]engine.Appended, error) { return nil, errTest }})
	done, err := r.step(away)
	if err != nil || done.Oldest <= 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	r.waiting(1, 0)
	if text := r.told.String(); !strings.Contains(text, errTest.Error()) {
		t.Errorf("logged was %s", text)
	}
	r.hold = again(t, r) // another process
	r.drain()
	r.wants("a", "1", "chosen", "3", "4")

	// A lost answer of an append loses nothing either.
	r.emit(occurrence("a", "5"))
	lost := r.box.Relay(faulty{r.store, func(appends func() ([]engine.Appended, error)) ([]engine.Appended, error) {
		_, err := appends()
		return nil, errors.Join(store.ErrUncertain, err)
	}})
	r.hold = again(t, r)
	if _, err := r.step(lost); err != nil {
		t.Fatal(err)
	}
	r.hold = again(t, r)
	r.drain()
	r.wants("a", "1", "chosen", "3", "4", "5")
	r.waiting(0, 0)
}

// again makes another process the owner of the outbox.
func again(t *testing.T, r *rig) engine.ShardFence {
	t.Helper()
	must(t, r.store.Release(t.Context(), r.hold))
	return claim(t, r.store)
}

// OB-1: while a relay moves or hangs, another one moves nothing; rows that the first has moved are not moved twice.
func TestOB1OneMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	other := openBox(t, pgtest.URL(t), r.schema, nil).Relay(r.store)
	r.emit(occurrence("a", "1"), occurrence("a", "2"))
	var blocked sync.WaitGroup
	stands, goes := make(chan struct{}), make(chan struct{})
	slow := r.box.Relay(faulty{r.store, func(appends func() ([]engine.Appended, error)) ([]engine.Appended, error) {
		done, err := appends()
		close(stands)
		<-goes
		return done, err
	}})
	blocked.Go(func() {
		if _, err := r.step(slow); err != nil {
			t.Error(err)
		}
	})
	<-stands
	done, err := r.step(other)
	if err != nil || done.Found != 2 || done.More {
		t.Errorf("%+v, %v", done, err)
	}
	r.waiting(2, 0)
	close(goes)
	blocked.Wait()
	r.waiting(0, 0)
	r.emit(occurrence("a", "3"))
	done, err = r.step(other) // which had seen the first two
	if err != nil || done.Found != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	r.wants("a", "1", "2", "3")
}

// A crossed store calls a function when a relay checks after its look that it is still the owner.
type crossed struct {
	*memcluster.Store
	do func()
}

func (s crossed) Cluster(ctx context.Context) (engine.Cluster, error) {
	s.do()
	return s.Store.Cluster(ctx)
}

// OB-1: rows that another relay moves between look and lock are not appended twice, even if their log has forgotten
// them since.
func TestOB1MovedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	other := openBox(t, pgtest.URL(t), r.schema, nil).Relay(r.store)
	l, err := r.store.OpenLog(t.Context(), "a", store.LogOptions{MaxCount: 1})
	must(t, err)
	r.emit(occurrence("a", "1"))
	done, err := r.step(r.box.Relay(crossed{r.store, func() {
		_, err := r.step(other)
		must(t, err)
		_, err = l.Append(t.Context(), occurrence("a", "2").Entry)
		must(t, err)
	}}))
	if err != nil || done.Found != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if oldest, head, err := l.Bounds(t.Context()); oldest != 2 || head != 2 || err != nil {
		t.Errorf("the log has %d to %d, %v", oldest, head, err)
	}
}

// OB-1: PostgreSQL ends the transaction of a hanging relay, and another relay continues. Entries that the first had
// appended are not repeated, and it has deleted nothing.
func TestOB1StandingStill(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.emit(occurrence("a", "1"))
	r.box.EndAfter(200 * time.Millisecond)
	other := openBox(t, pgtest.URL(t), r.schema, nil).Relay(r.store)
	slow := r.box.Relay(faulty{r.store, func(appends func() ([]engine.Appended, error)) ([]engine.Appended, error) {
		done, failed := appends()
		r.emit(occurrence("a", "2"))
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // by PostgreSQL's clock
			if rows, _, _, err := r.box.Waiting(t.Context()); err != nil || rows == 0 {
				return done, errors.Join(failed, err)
			}
			if _, err := r.step(other); err != nil || time.Now().After(end) {
				t.Errorf("the other does not move: %v", err)
				return done, err
			}
		}
	}})
	if _, err := r.step(slow); err == nil {
		t.Error("it has committed")
	}
	r.wants("a", "1", "2")
	r.drain()
	r.wants("a", "1", "2")
	r.waiting(0, 0)
}

// OB-3: a row that cannot be appended is rejected with the reason, counted, logged at level error, and blocks no
// others. It is put back after a repair, or dropped.
func TestOB3SetAside(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	must(t, errOf(r.store.OpenLog(t.Context(), engine.ControlLog, store.LogOptions{})))
	stands := occurrence("a", "stands")
	r.emit(stands)
	r.drain()
	reused, control, none := stands, occurrence(engine.ControlLog, "order"), occurrence("none", "of no type")
	reused.Entry.Data = []byte(`{}`)
	large := occurrence("a", "large")
	r.emit(reused, control, none, large, occurrence("a", "1"), occurrence("b", "2"))
	pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+r.schema+`.outbox (log, event_id, timestamp, data, once, above) VALUES ('a', 'undecodable', 'no time', '{}', false, 0)`)
	r.emit(occurrence("a", "3"))
	refusing := r.box.Relay(refusing{r.store})
	done, err := r.step(refusing)
	if err != nil || done.Rejected != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	r.wants("a", "stands", "1", "3")
	r.wants("b", "2")
	r.wants(engine.ControlLog)
	r.waiting(0, 5)
	rejected, err := r.relay.Rejected(t.Context(), 0, 10)
	must(t, err)
	want := []struct{ id, reason string }{{"stands", "other data"}, {"order", "internal to the servers"}, {"of no type", "no server has registered"},
		{"large", "too large"}, {"undecodable", "timestamp"}}
	for i, w := range want {
		if got := rejected[i]; got.EventID != w.id || !strings.Contains(got.Reason, w.reason) || got.At.IsZero() {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
	if text := r.told.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "rows=5") {
		t.Errorf("logged was %s", text)
	}
	// Repaired by SQL, and put back.
	pgtest.Exec(t, pgtest.URL(t), `UPDATE `+r.schema+`.rejected SET timestamp = '2026-01-01T00:00:00Z' WHERE event_id = 'undecodable'`)
	for _, id := range []int64{rejected[3].ID, rejected[4].ID} {
		if found, err := r.relay.PutBack(t.Context(), id); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	for _, c := range rejected[:3] {
		if found, err := r.relay.Drop(t.Context(), c.ID); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	r.drain()
	r.wants("a", "stands", "1", "3", "large", "undecodable")
	r.waiting(0, 0)
}

func errOf(_ store.EventLog, err error) error { return err }

// A refusing store refuses large entries.
type refusing struct{ *memcluster.Store }

func (s refusing) AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]engine.Appended, error) {
	for _, o := range group {
		if o.Entry.EventID == "large" {
			return nil, fmt.Errorf("%w: %w", engine.ErrRefused, events.ErrTooLarge)
		}
	}
	return s.Store.AppendGroup(ctx, log, group)
}

// OB-4, K6: moved rows stay in the table while a snapshot may need them, and a look does not touch them.
func TestOB4DeadRows(t *testing.T) {
	t.Parallel()
	const dead = 100_000
	ctx := t.Context()
	r := newRig(t, "a")
	look := func(id string) (idle, found float64) {
		t.Helper()
		r.drain()
		r.drain() // earlier transactions have ended
		idle = r.box.LookBlocks(t)
		r.emit(occurrence("a", id))
		found = r.box.LookBlocks(t)
		r.drain()
		if got := r.ids("a"); got[len(got)-1] != id {
			t.Errorf("%s did not arrive: %q", id, got)
		}
		return idle, found
	}
	idle, found := look("before")
	tx, err := connect(t).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(ctx, "SELECT count(*) FROM "+r.schema+".outbox")
	must(t, err)
	late := beginPgx(t, r.box) // it writes, and lasts as long as the report
	must(t, late.Emit(occurrence("a", "late")))
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`INSERT INTO %s.outbox (log, event_id, timestamp, data, once, above)
		SELECT 'a', ('d' || g)::bytea, '2026-01-01T00:00:00Z', '{}', false, 0 FROM generate_series(1, %d) g`, r.schema, dead),
		"DELETE FROM "+r.schema+".outbox", "VACUUM ANALYZE "+r.schema+".outbox")
	if n := pgtest.Query(t, pgtest.URL(t), "SELECT pg_relation_size('"+r.schema+".outbox') / 8192"); len(n) < 4 {
		t.Fatalf("the table has %s blocks: nothing dead is in it", n)
	}
	idleAfter, foundAfter := look("beside")
	t.Logf("blocks of a range: %.1f and %.1f with a row, before %.1f and %.1f", idleAfter, foundAfter, idle, found)
	const levels = 2 // maximum number of additional index levels
	if idleAfter > 2*idle+levels || foundAfter > 2*found+levels {
		t.Errorf("a look with %d dead rows touches %.1f blocks a range, and %.1f with a row; with none %.1f and %.1f", dead, idleAfter, foundAfter, idle, found)
	}
	must(t, late.Commit())
	r.drain()
	r.wants("a", "before", "beside", "late")
}

// REP-20: an idle relay makes one query per look.
func TestREP20IdleRelay(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.drain()
	before := r.box.Queries()
	r.drain()
	if n := r.box.Queries() - before; n != 1 {
		t.Errorf("a look that finds nothing takes %d questions", n)
	}
}

// OB-5: while the events' store is away, rows wait, authors' transactions are unaffected, and afterwards all rows
// arrive in order. A single unavailable log does not block others.
func TestOB5StoreAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	r.store.Inject(memcluster.Faults{Fail: func(op string) error {
		if op == "AppendGroup a" {
			return errTest
		}
		return nil
	}})
	var want []string
	for i := range 20 {
		id := fmt.Sprint(i)
		r.emit(occurrence("a", id), occurrence("b", id))
		want = append(want, id)
		_, err := r.step(r.relay)
		must(t, err)
	}
	r.wants("b", want...)
	r.wants("a")
	oldest := r.waiting(20, 0)
	r.store.Inject(memcluster.Faults{Fail: func(string) error { return errTest }})
	r.emit(occurrence("a", "last"), occurrence("b", "last"))
	if _, err := r.step(r.relay); !errors.Is(err, errTest) {
		t.Errorf("all is away: %v", err)
	}
	if now := r.waiting(22, 0); now <= oldest {
		t.Errorf("the oldest waits for %v, and for %v before", now, oldest)
	}
	r.store.Inject(memcluster.Faults{})
	for end := time.Now().Add(time.Minute); len(r.ids("a")) < 21; time.Sleep(10 * time.Millisecond) { // a log that failed is left alone for a second
		r.drain()
		if time.Now().After(end) {
			t.Fatal("what waited does not arrive")
		}
	}
	r.wants("a", append(want, "last")...)
	r.wants("b", append(want, "last")...)
	r.waiting(0, 0)
}

// An invalid configuration, or a schema that is not an outbox, is refused with an error that names it and contains no
// password.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	foreign, newer, unreleased := pgtest.Schema(t), pgtest.Schema(t), pgtest.Schema(t)
	pgtest.Exec(t, dsn, "CREATE SCHEMA "+foreign, "CREATE TABLE "+foreign+".tickets (id text)")
	openBox(t, dsn, newer, nil)
	openBox(t, dsn, newer, nil) // which exists
	pgtest.Exec(t, dsn, "UPDATE "+newer+".version SET schema_version = 99",
		"CREATE SCHEMA "+unreleased, "CREATE TABLE "+unreleased+".version (number integer NOT NULL)", "INSERT INTO "+unreleased+".version VALUES (1)")
	for _, c := range []struct {
		dsn  string
		o    pgoutbox.Options
		want string
	}{
		{dsn, pgoutbox.Options{Schema: foreign}, "tables of another program"},
		{dsn, pgoutbox.Options{Schema: newer}, "was changed by a newer release: it has version 99, but this build knows only 1; upgrade mcpe-gen"},
		{dsn, pgoutbox.Options{Schema: unreleased}, "was made by an unreleased build of mcpe-gen; use a new one"},
		{dsn, pgoutbox.Options{Schema: "pg_outbox"}, "Schema"},
		{dsn, pgoutbox.Options{Schema: strings.Repeat("x", 49)}, "Schema"},
		{dsn, pgoutbox.Options{Connections: -1}, "Connections"},
		{"postgres://u:hunter2@127.0.0.1:1/none?connect_timeout=1", pgoutbox.Options{}, "127.0.0.1"},
		{"postgres://u:hunter2@[", pgoutbox.Options{}, "parse"},
	} {
		b, err := pgoutbox.Open(t.Context(), c.dsn, c.o)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}
