package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// connect returns a connection for the author's transactions.
func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// K6: moved rows stay in the table while a snapshot may need them, and a look does not touch them.
func TestREP20DeadRows(t *testing.T) {
	t.Parallel()
	const dead = 100_000
	ctx := t.Context()
	schema := pgtest.Schema(t)
	o := newOutbox(t, open(t, schema, postgres.Options{}))
	l := named(t, o.Store, "log")
	look := func(id string) (idle, found float64) {
		t.Helper()
		o.drain()
		o.drain() // earlier transactions have ended
		idle = o.LookBlocks(t)
		pgtest.Exec(t, pgtest.URL(t), entryRow(schema, `'log'`, `'`+id+`'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`))
		found = o.LookBlocks(t)
		o.drain()
		if got := ids(t, l); got[len(got)-1] != id {
			t.Errorf("%s did not arrive: %q", id, got)
		}
		return idle, found
	}
	idle, found := look("before")

	report := connect(t)
	tx, err := report.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT count(*) FROM "+schema+".outbox"); err != nil {
		t.Fatal(err)
	}
	// A writing transaction, which has a number, lasts as long as the report.
	writer := connect(t)
	wtx, err := writer.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer wtx.Rollback(ctx)
	if _, err := wtx.Exec(ctx, entryRow(schema, `'log'`, `'late'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`)); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`INSERT INTO %s.outbox (log, event_id, timestamp, data, once, above)
		SELECT 'log', ('d' || g)::bytea, %s, '{}', false, 0 FROM generate_series(1, %d) g`, schema, goodTime, dead),
		"DELETE FROM "+schema+".outbox", "VACUUM ANALYZE "+schema+".outbox")
	if n := pgtest.Query(t, pgtest.URL(t), "SELECT pg_relation_size('"+schema+".outbox') / 8192"); len(n) < 4 {
		t.Fatalf("the table has %s blocks: nothing dead is in it", n)
	}
	idleAfter, foundAfter := look("beside")
	t.Logf("blocks of a range: %.1f and %.1f with a row, before %.1f and %.1f", idleAfter, foundAfter, idle, found)
	const levels = 2 // maximum number of additional index levels
	if most := 2*max(idle, found) + levels; idleAfter > most || foundAfter > most {
		t.Errorf("a look with %d dead rows touches %.1f blocks a range, and %.1f with a row; with none %.1f and %.1f", dead, idleAfter, foundAfter, idle, found)
	}
	if err := wtx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	o.drain()
	if got := fmt.Sprint(ids(t, l)); got != "[before beside late]" {
		t.Errorf("moved %s", got)
	}
}

// REP-20: in whatever order transactions begin, emit and end, and whichever logs the check cannot decide meanwhile,
// every committed occurrence arrives once. Those of one transaction to a log keep their order, and those of a
// transaction that began after another one's end come after it.
func TestREP20AnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			anyOrder(t, rand.New(rand.NewPCG(seed, 23)))
		})
	}
}

func anyOrder(t *testing.T, r *rand.Rand) {
	const clients, steps = 5, 120
	ctx := t.Context()
	schema := pgtest.Schema(t)
	o := newOutbox(t, open(t, schema, postgres.Options{}))
	logs := []string{"a", "b", "c"}
	for _, name := range logs {
		named(t, o.Store, name)
	}
	// An emitting is a transaction, with the number of transactions committed when it began.
	type emitting struct {
		tx    pgx.Tx
		ids   map[string][]string // by log
		began int
	}
	conns, under := make([]*pgx.Conn, clients), make([]*emitting, clients)
	for i := range conns {
		conns[i] = connect(t)
	}
	var committed []*emitting
	unknown := map[string]bool{}
	check := func(_ context.Context, p store.Outgoing) (fault, err error) {
		if unknown[p.Log] {
			return nil, errors.New("it cannot be told")
		}
		return nil, nil
	}
	n := 0
	for range steps {
		i := r.IntN(clients)
		switch e := under[i]; {
		case r.IntN(4) == 0:
			if _, err := o.Sequence(ctx, o.hold, 1+r.IntN(4), check); err != nil {
				t.Fatal(err)
			}
		case r.IntN(12) == 0:
			name := logs[r.IntN(len(logs))]
			unknown[name] = !unknown[name]
		case e == nil:
			tx, err := conns[i].Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			under[i] = &emitting{tx: tx, ids: map[string][]string{}, began: len(committed)}
		case r.IntN(3) > 0:
			name := logs[r.IntN(len(logs))]
			for range 1 + r.IntN(6) {
				n++
				id := fmt.Sprint(n)
				if _, err := e.tx.Exec(ctx, entryRow(schema, `'`+name+`'`, `'`+id+`'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`)); err != nil {
					t.Fatal(err)
				}
				e.ids[name] = append(e.ids[name], id)
			}
		case r.IntN(3) == 0:
			if err := e.tx.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			under[i] = nil
		default:
			if err := e.tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			under[i] = nil
			committed = append(committed, e)
		}
	}
	clear(unknown)
	for began := time.Now(); pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM "+schema+".outbox") != "0"; {
		o.drain() // logs that failed are skipped for a second
		if time.Since(began) > time.Minute {
			t.Fatal("the outbox does not become empty")
		}
	}
	for _, name := range logs {
		got, sum := ids(t, named(t, o.Store, name)), 0
		firsts, lasts := make([]int, len(committed)), make([]int, len(committed))
		for i, e := range committed {
			mine := e.ids[name]
			sum += len(mine)
			places := make([]int, len(mine))
			for k, id := range mine {
				places[k] = slices.Index(got, id)
			}
			if !slices.IsSorted(places) || slices.Contains(places, -1) {
				t.Fatalf("log %s: %v of one transaction are at %v", name, mine, places)
			}
			firsts[i], lasts[i] = len(got), -1
			if len(places) > 0 {
				firsts[i], lasts[i] = places[0], places[len(places)-1]
			}
		}
		if sum != len(got) {
			t.Fatalf("log %s: %d arrived of %d", name, len(got), sum)
		}
		for i, e := range committed {
			for k := range e.began { // they had ended
				if lasts[k] > firsts[i] {
					t.Fatalf("log %s: %v come before %v, whose transaction had ended", name, e.ids[name], committed[k].ids[name])
				}
			}
		}
	}
}
