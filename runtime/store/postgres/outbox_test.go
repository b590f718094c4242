package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// whole accepts every occurrence whose data are JSON.
func whole(_ context.Context, o store.Outgoing) (fault, err error) {
	if !json.Valid(o.Entry.Data) {
		return errors.New("no JSON"), nil
	}
	return nil, nil
}

// An outbox is the outbox of a store, with its owner.
type outbox struct {
	*postgres.Store
	t    *testing.T
	hold engine.ShardFence
}

func newOutbox(t *testing.T, s *postgres.Store) outbox {
	t.Helper()
	ctx := t.Context()
	if _, err := s.Establish(ctx, engine.OutboxTopic, 1); err != nil {
		t.Fatal(err)
	}
	l, err := s.Join(ctx, "sequencer", time.Minute, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.OutboxTopic}, Fence: l.Fence}
	if won, err := s.Claim(ctx, l.Fence, []engine.ShardFence{{Shard: h.Shard}}); err != nil || len(won) != 1 {
		t.Fatal(won, err)
	}
	return outbox{s, t, h}
}

// drain moves all waiting occurrences.
func (o outbox) drain() (rejected int) {
	o.t.Helper()
	for {
		done, err := o.Sequence(o.t.Context(), o.hold, 512, whole)
		if err != nil {
			o.t.Fatal(err)
		}
		if rejected += done.Rejected; !done.More {
			return rejected
		}
	}
}

func ids(t *testing.T, l store.EventLog) (ids []string) {
	t.Helper()
	if _, err := l.(engine.Log).CatchUp(t.Context(), 1<<40); err != nil {
		t.Fatal(err)
	}
	b, err := l.Read(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Entries {
		ids = append(ids, e.EventID)
	}
	return ids
}

func named(t *testing.T, s *postgres.Store, name string) store.EventLog {
	t.Helper()
	l, err := s.OpenLog(t.Context(), name, store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// row returns an INSERT of a row into the outbox; every argument is SQL text.
func entryRow(schema, log, id, timestamp, data, meta, targets, above string) string {
	return fmt.Sprintf(`INSERT INTO %s.outbox (log, event_id, timestamp, data, meta, targets, once, above) VALUES (%s, %s, %s, %s, %s, %s, false, %s)`,
		schema, log, id, timestamp, data, meta, targets, above)
}

const goodTime = `'2026-01-01T00:00:00Z'`

// K2, K3: a row with any kind of damage is rejected and does not block others, even if 600 of them come first; an
// empty value counts as NULL.
func TestREP20DamagedRows(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	o := newOutbox(t, open(t, schema, postgres.Options{}))
	l, other := named(t, o.Store, "log"), named(t, o.Store, "other")
	named(t, o.Store, engine.ControlLog)
	for _, c := range []struct{ name, sql, reason string }{
		{"a timestamp", entryRow(schema, `'log'`, `'x'`, `'not a time'`, `'{}'`, `NULL`, `NULL`, `0`), "timestamp"},
		{"a year", entryRow(schema, `'log'`, `'x'`, `'99999-01-01T00:00:00Z'`, `'{}'`, `NULL`, `NULL`, `0`), "timestamp"},
		{"targets", entryRow(schema, `'log'`, `'x'`, goodTime, `'{}'`, `NULL`, `'{'`, `0`), "targets"},
		{"no targets", entryRow(schema, `'log'`, `'x'`, goodTime, `'{}'`, `NULL`, `'[]'`, `0`), "targets"},
		{"null targets", entryRow(schema, `'log'`, `'x'`, goodTime, `'{}'`, `NULL`, `'null'`, `0`), "targets"},
		{"above", entryRow(schema, `'log'`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `-1`), "above"},
		{"data", entryRow(schema, `'log'`, `'x'`, goodTime, `'not json'`, `NULL`, `NULL`, `0`), "no JSON"},
		{"a log of the servers", entryRow(schema, `'/control'`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`), "/control"},
		{"a log that is none", entryRow(schema, `'none'`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`), `"none"`},
		{"no name", entryRow(schema, `''`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`), `""`},
		// Incompressible text that is too large for an index.
		{"a long name", entryRow(schema, `(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 200) g)`, `'x'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`), "1024"},
		{"a large one", entryRow(schema, `'log'`, `'x'`, goodTime, `convert_to(repeat(' ', 17 << 20), 'UTF8')`, `NULL`, `NULL`, `0`), "17825"},
	} {
		pgtest.Exec(t, pgtest.URL(t), entryRow(schema, `'log'`, `'before `+c.name+`'`, goodTime, `'{}'`, `''`, `''`, `0`), c.sql,
			entryRow(schema, `'log'`, `'after `+c.name+`'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`),
			entryRow(schema, `'other'`, `'`+c.name+`'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`))
		if n := o.drain(); n != 1 {
			t.Errorf("%s: %d were rejected", c.name, n)
		}
		all, err := o.Rejected(t.Context(), 0, 10)
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, c.reason) || all[0].EventID != "x" {
			t.Fatalf("%s: %+v, %v", c.name, all, err)
		}
		got := ids(t, l)
		if n := len(got); n < 2 || got[n-2] != "before "+c.name || got[n-1] != "after "+c.name {
			t.Errorf("%s: %q", c.name, got)
		}
		if got := ids(t, other); len(got) == 0 || got[len(got)-1] != c.name {
			t.Errorf("%s: another log has %q", c.name, got)
		}
		// It is put back unchanged, and rejected once more.
		if found, err := o.PutBack(t.Context(), all[0].ID); err != nil || !found {
			t.Fatalf("%s: %v %v", c.name, found, err)
		}
		if n := o.drain(); n != 1 {
			t.Errorf("%s: %d were rejected again", c.name, n)
		}
		again, err := o.Rejected(t.Context(), all[0].ID, 10)
		if err != nil || len(again) != 1 {
			t.Fatalf("%s: %+v, %v", c.name, again, err)
		}
		if found, err := o.Drop(t.Context(), again[0].ID); err != nil || !found {
			t.Fatalf("%s: %v %v", c.name, found, err)
		}
	}
	if n := pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM "+schema+".logs"); n != "3" {
		t.Errorf("there are %s logs: the outbox made some", n)
	}

	pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+schema+`.outbox (log, event_id, timestamp, data, once, above)
		SELECT 'log', ('bad' || g)::bytea, CASE g % 2 WHEN 0 THEN 'no' ELSE `+goodTime+` END, '{', false, 0 FROM generate_series(1, 600) g`,
		entryRow(schema, `'log'`, `'beyond'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`))
	began := time.Now()
	if n := o.drain(); n != 600 {
		t.Errorf("%d were rejected", n)
	}
	if got := ids(t, l); got[len(got)-1] != "beyond" {
		t.Error("what lies behind 600 damaged rows did not arrive")
	}
	t.Log("600 damaged rows took", time.Since(began))
}

// A role that may insert rows repeats their ids, which does not block others.
func TestREP20ChosenIDs(t *testing.T) {
	schema := pgtest.Schema(t)
	o := newOutbox(t, open(t, schema, postgres.Options{}))
	for range 2 {
		pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+schema+`.outbox VALUES (-7, 'none', 'x', 'no', '{', NULL, NULL, false, 0)`)
		if n := o.drain(); n != 1 {
			t.Fatalf("%d were rejected", n)
		}
	}
}

// A row that the server refuses is rejected as well, and the others of its group are moved.
func TestREP20RefusedByTheServer(t *testing.T) {
	schema := pgtest.Schema(t)
	o := newOutbox(t, open(t, schema, postgres.Options{}))
	l := named(t, o.Store, "log")
	pgtest.Exec(t, pgtest.URL(t), `ALTER TABLE `+schema+`.entries ADD CHECK (event_id <> 'unlucky')`)
	for _, id := range []string{"1", "unlucky", "2"} {
		pgtest.Exec(t, pgtest.URL(t), entryRow(schema, `'log'`, `'`+id+`'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`))
	}
	if n := o.drain(); n != 1 {
		t.Errorf("%d were rejected", n)
	}
	if got := fmt.Sprint(ids(t, l)); got != "[1 2]" {
		t.Errorf("moved %s", got)
	}
}

// K2: a log that cannot be appended to does not block others, even if it has more rows at the front than a look
// reads; it continues once it can.
func TestREP20StuckLog(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	o := newOutbox(t, s)
	stuck, l := named(t, s, "stuck"), named(t, s, "log")
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1 FROM "+schema+".logs WHERE name = 'stuck' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.URL(t), `INSERT INTO `+schema+`.outbox (log, event_id, timestamp, data, once, above)
		SELECT 'stuck', ('s' || g)::bytea, `+goodTime+`, '{}', false, 0 FROM generate_series(1, 1100) g`,
		entryRow(schema, `'log'`, `'1'`, goodTime, `'{}'`, `NULL`, `NULL`, `0`))
	began := time.Now()
	var oldest time.Duration // K10: how long something has waited
	for n := 1; n < 20; n++ {
		done, err := o.Sequence(ctx, o.hold, 512, whole)
		if err != nil {
			t.Fatal(err)
		}
		if done.Oldest <= oldest || done.Oldest > time.Since(began)+time.Second {
			t.Errorf("the oldest has waited for %v, after %v for %v", done.Oldest, time.Since(began), oldest)
		}
		oldest = done.Oldest
		if got := ids(t, l); len(got) == n {
			if n == 3 {
				break
			}
			pgtest.Exec(t, pgtest.URL(t), entryRow(schema, `'log'`, fmt.Sprintf("'%d'", n+1), goodTime, `'{}'`, `NULL`, `NULL`, `0`))
		} else if time.Since(began) > time.Minute {
			t.Fatal("another log waits for the one that is stuck")
		} else {
			n--
		}
	}
	if n := len(ids(t, stuck)); n != 0 {
		t.Fatalf("%d were moved beside the lock", n)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	for len(ids(t, stuck)) == 0 {
		o.drain()
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the log that was stuck does not go on")
		}
	}
	o.drain()
	if done, err := o.Sequence(ctx, o.hold, 512, whole); err != nil || done.Oldest != 0 {
		t.Errorf("%+v, %v: nothing waits", done, err)
	}
	if _, head, err := stuck.Bounds(ctx); err != nil || head != 1100 {
		t.Fatalf("head %d, %v", head, err)
	}
	if all, err := o.Rejected(ctx, 0, 10); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
}
