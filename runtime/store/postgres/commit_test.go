package postgres_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// lock locks the rows of logs until the function that it returns is called.
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

// appendOne appends to each of the logs at once.
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

// K9: appends to several logs that wait at once share transactions.
func TestAppendsShareTransactions(t *testing.T) {
	t.Parallel()
	const n = 32
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	first, held := namedAll(t, s, "held", 2) // one in each lane
	logs, _ := namedAll(t, s, "log", n)
	unlock := lock(t, schema, held...)
	var wg sync.WaitGroup
	wg.Go(func() { appendOne(t, first, "x") })
	wg.Go(func() { appendOne(t, logs, "x") })
	wg.Go(func() {
		waits := "SELECT count(*) FROM pg_locks WHERE NOT granted AND transactionid IS NOT NULL"
		for began := time.Now(); pgtest.Query(t, pgtest.URL(t), waits) == "0" && time.Since(began) < 10*time.Second; {
			time.Sleep(time.Millisecond)
		}
		unlock()
	})
	wg.Wait()
	text := pgtest.Query(t, pgtest.URL(t), "SELECT count(DISTINCT e.xmin::text) FROM "+schema+".entries e JOIN "+schema+".logs l ON l.id = e.log WHERE l.name LIKE 'log%'")
	if used, err := strconv.Atoi(text); err != nil || used > n/2 {
		t.Errorf("%d logs were appended to in %s transactions", n, text)
	}
}

// K9: logs that somebody has locked, more than there are connections, hold up no other, and go on afterwards.
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

// K9: what others append to many logs is read in two queries, and not in one for each log.
func TestTailReadsLogsTogether(t *testing.T) {
	t.Parallel()
	const n = 12
	schema := pgtest.Schema(t)
	quietly := postgres.Options{Pooled: true, Poll: time.Hour} // nothing looks by itself
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
