package postgres_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// lock locks the rows of logs until unlock is called.
func lock(t *testing.T, schema string, names ...string) (unlock func()) {
	t.Helper()
	tx, err := connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+schema+".logs WHERE name = ANY ($1) FOR UPDATE", names); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// appendOne appends to all of the logs concurrently.
func appendOne(t *testing.T, logs []store.EventLog, id string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			if _, err := l.Append(t.Context(), entry(id)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func namedAll(t *testing.T, s *postgres.Store, prefix string, n int) (logs []store.EventLog, names []string) {
	t.Helper()
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
		logs = append(logs, named(t, s, names[i]))
	}
	return logs, names
}

// atOnce calls f, which makes n concurrent appends, so that all of them wait for the next transactions.
func atOnce(t *testing.T, s *postgres.Store, n int, f func()) {
	t.Helper()
	release := s.HoldAppends()
	var wg sync.WaitGroup
	wg.Go(f)
	for began := time.Now(); s.Waiting() < n; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Errorf("%d of %d appends wait", s.Waiting(), n)
			break
		}
	}
	release()
	wg.Wait()
}

// K9: concurrent appends to several logs share a transaction.
func TestAppendsShareTransactions(t *testing.T) {
	t.Parallel()
	const n = 32
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{Pooled: true, Poll: time.Hour}) // nothing looks on a timer
	logs, _ := namedAll(t, s, "log", n)
	before := s.Statements()
	atOnce(t, s, n, func() { appendOne(t, logs, "x") })
	if used := s.Statements() - before; used > 2 { // begin_write and append_all
		t.Errorf("appending to %d logs took %d statements, want 2", n, used)
	}
	text := pgtest.Query(t, pgtest.URL(t), "SELECT count(DISTINCT e.xmin::text) FROM "+schema+".entries e JOIN "+schema+".logs l ON l.id = e.log WHERE l.name LIKE 'log%'")
	if used, err := strconv.Atoi(text); err != nil || used > 1 {
		t.Errorf("%d logs were appended to in %s transactions", n, text)
	}
}

// REP-1, OCC-5: appends that share transactions are numbered per log without holes, and an existing id is not
// appended once more, whatever else is in its transaction.
func TestAppendsOfSeveralLogs(t *testing.T) {
	t.Parallel()
	const n, more = 8, 3
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	logs, _ := namedAll(t, s, "log", n)
	appendOne(t, logs[:n/2], "once")
	var fresh atomic.Int64
	var at [n]sync.Map // the id at a position
	atOnce(t, s, n*more+n/2*2, func() {
		var wg sync.WaitGroup
		for i, l := range logs {
			for j := range more {
				wg.Go(func() {
					id := fmt.Sprint(i, "-", j)
					p, err := l.Append(t.Context(), entry(id))
					if err != nil {
						t.Error(err)
					}
					at[i].Store(p, id)
				})
			}
			if i%2 == 0 {
				for range 2 {
					wg.Go(func() {
						p, new, err := l.AppendOnce(t.Context(), entry("once"), 0)
						if err != nil {
							t.Error(err)
						}
						if new {
							fresh.Add(1)
						}
						at[i].Store(p, "once")
					})
				}
			}
		}
		wg.Wait()
	})
	if got := fresh.Load(); got != n/4 {
		t.Errorf("%d of those that were to be appended once were appended, want %d", got, n/4)
	}
	for i, l := range logs {
		want := more
		if i < n/2 || i%2 == 0 {
			want++
		}
		all := ids(t, l)
		if len(all) != want {
			t.Errorf("log %d has %q, want %d entries", i, all, want)
		}
		at[i].Range(func(p, id any) bool {
			if q := int(p.(store.Position)); q < 1 || q > len(all) || all[q-1] != id {
				t.Errorf("log %d has %q, but %v was told to be at %v", i, all, id, p)
			}
			return true
		})
	}
}

// K2: an entry that the database refuses fails without others: neither concurrent appends to the same log nor other
// logs fail.
func TestRefusedAppendFailsAlone(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	pgtest.Exec(t, pgtest.URL(t), "CREATE FUNCTION "+schema+".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$",
		"CREATE TRIGGER refuse BEFORE INSERT ON "+schema+".entries FOR EACH ROW WHEN (NEW.event_id = 'bad') EXECUTE FUNCTION "+schema+".refuse()")
	logs, _ := namedAll(t, s, "log", 8)
	for i := range 2 { // afterwards too, with the log back in the committer
		if i > 0 {
			appendOne(t, logs[3:4], "good") // so that the log is back in the committer
		}
		atOnce(t, s, len(logs)+1, func() {
			var wg sync.WaitGroup
			wg.Go(func() { appendOne(t, logs, "good") })
			wg.Go(func() {
				if _, err := logs[3].Append(t.Context(), entry("bad")); err == nil || !strings.Contains(err.Error(), "refused") {
					t.Errorf("a refused append: %v", err)
				}
			})
			wg.Wait()
		})
	}
	for i, l := range logs {
		want := "[good good]"
		if i == 3 {
			want = "[good good good]"
		}
		if got := fmt.Sprint(ids(t, l)); got != want {
			t.Errorf("log %d has %s, want %s", i, got, want)
		}
	}
}

// K9: an append reads the entries that other processes have appended in between, without a query for them.
func TestAppendsAreReadTogether(t *testing.T) {
	t.Parallel()
	const n = 24
	schema := pgtest.Schema(t)
	quietly := postgres.Options{Pooled: true, Poll: time.Hour} // nothing looks on a timer
	a, b := open(t, schema, quietly), open(t, schema, quietly)
	logs, _ := namedAll(t, a, "log", n)
	others, _ := namedAll(t, b, "log", n)
	appendOne(t, others, "theirs")
	before := a.Statements() // of b as well
	atOnce(t, a, n, func() { appendOne(t, logs, "ours") })
	if used := a.Statements() - before; used > 2 { // begin_write and append_all
		t.Errorf("appending to %d logs took %d statements, want 2", n, used)
	}
	for i, l := range logs {
		if got := fmt.Sprint(ids(t, l)); got != "[theirs ours]" {
			t.Errorf("log %d has %s", i, got)
		}
	}
	const many = 600 // more than an append reads
	atOnce(t, b, many, func() {
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() { appendOne(t, others[:1], fmt.Sprint(i)) })
		}
		wg.Wait()
	})
	appendOne(t, logs[:1], "last")
	if got := ids(t, logs[0]); len(got) != many+3 || got[len(got)-1] != "last" {
		t.Errorf("a log has %d entries, want %d and then the last one: %q", len(got), many+2, got)
	}
}

// REP-9: closing a store does not deadlock with an append that must still read entries of other processes.
func TestCloseBeforeOthersAreRead(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	quietly := postgres.Options{Pooled: true, Poll: time.Hour} // nothing looks on a timer
	a, b := open(t, schema, quietly), open(t, schema, quietly)
	l := named(t, a, "log")
	appendOne(t, []store.EventLog{named(t, b, "log")}, "theirs")
	release := a.HoldTelling("log")
	appended, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := l.AppendOnce(t.Context(), entry("ours"), 0) // its transaction does not read other entries
		appended <- err
	}()
	wait := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal(what)
			}
		}
	}
	wait("it was not committed", func() bool { return string(b.Raw(t, "SELECT head::text::bytea FROM @.logs")) == "2" })
	go func() { closed <- a.Close() }()
	wait("it is not closed", func() bool { return errors.Is(a.Ping(t.Context()), store.ErrClosed) })
	release()
	for what, ended := range map[string]chan error{"append": appended, "close": closed} {
		select {
		case err := <-ended:
			if what == "close" && err != nil || what == "append" && !errors.Is(err, store.ErrUncertain) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s does not end", what)
		}
	}
}

// K9: locked logs, more than there are connections, do not delay other logs, and continue afterwards.
func TestStuckLogsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{Connections: 4})
	stuck, names := namedAll(t, s, "stuck", 7)
	logs, _ := namedAll(t, s, "log", 4)
	unlock := lock(t, schema, names...)
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		appendOne(t, stuck, "x")
		done.Store(true)
	})
	for i := range 30 {
		appendOne(t, logs, fmt.Sprint(i))
	}
	if done.Load() {
		t.Error("it was appended to a log that is locked")
	}
	unlock()
	wg.Wait()
	appendOne(t, stuck, "y")
	for _, l := range stuck {
		if got := fmt.Sprint(ids(t, l)); got != "[x y]" {
			t.Errorf("a log that was stuck has %s", got)
		}
	}
	for _, l := range logs {
		if got := ids(t, l); len(got) != 30 {
			t.Errorf("a log has %q", got)
		}
	}
}

// K9: entries that other processes append to many logs are read in two queries, not in one per log.
func TestTailReadsLogsTogether(t *testing.T) {
	t.Parallel()
	const n = 12
	schema := pgtest.Schema(t)
	quietly := postgres.Options{Pooled: true, Poll: time.Hour} // nothing looks on a timer
	a, b := open(t, schema, quietly), open(t, schema, quietly)
	var told atomic.Int64
	for i := range n {
		_, err := a.OpenLog(t.Context(), fmt.Sprint("log", i), store.LogOptions{Appended: func(entries []store.Entry) { told.Add(int64(len(entries))) }})
		if err != nil {
			t.Fatal(err)
		}
	}
	logs, _ := namedAll(t, b, "log", n)
	for i := range 3 {
		appendOne(t, logs, fmt.Sprint(i))
	}
	before := a.Queries()
	a.Look()
	for began := time.Now(); told.Load() < 3*n; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d of %d were told", told.Load(), 3*n)
		}
	}
	if used := a.Queries() - before; used != 2 {
		t.Errorf("%d logs were read in %d queries, want 2", n, used)
	}
}
