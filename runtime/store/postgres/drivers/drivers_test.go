package drivers

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type prepared store.Outgoing

func (p prepared) Outgoing() store.Outgoing { return store.Outgoing(p) }

// TestRelease checks that the tests use the release of lib/pq that the Makefile names: 1.10.9 sends nil bytes as empty
// ones, and EmitSQL must not depend on that.
func TestRelease(t *testing.T) {
	db, err := sql.Open("postgres", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var null bool
	if err := db.QueryRowContext(t.Context(), "SELECT $1::bytea IS NULL", []byte(nil)).Scan(&null); err != nil {
		t.Fatal(err)
	}
	if old := os.Getenv("MCPE_TEST_LIBPQ") == "1.10"; null == old {
		t.Errorf("the old release is to be tried: %v; nil bytes arrive as NULL: %v", old, null)
	}
}

// REP-20, K2: an occurrence emitted in a transaction of database/sql arrives unchanged, with and without _meta and
// targets, by a role that may only insert the columns of an occurrence.
func TestREP20EmitSQL(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} { // lib/pq calls itself so
		t.Run(driver, func(t *testing.T) {
			ctx := t.Context()
			schema := pgtest.Schema(t)
			s, err := postgres.Open(ctx, pgtest.URL(t), postgres.Options{Schema: schema, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			l, err := s.OpenLog(ctx, "log", store.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			role := schema + "_w"
			pgtest.Exec(t, pgtest.URL(t), "CREATE ROLE "+role+" LOGIN", "GRANT USAGE ON SCHEMA "+schema+" TO "+role,
				"GRANT INSERT (log, event_id, timestamp, data, meta, targets, once, above) ON "+schema+".outbox TO "+role,
				"GRANT USAGE ON SEQUENCE "+schema+".outbox_id_seq TO "+role)
			t.Cleanup(func() { pgtest.Exec(t, pgtest.URL(t), "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
			db, err := sql.Open(driver, strings.Replace(pgtest.URL(t), "postgres@", role+"@", 1))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(ctx, "INSERT INTO "+schema+".outbox (id, log, event_id, timestamp, data, once, above) VALUES (99, 'log', 'x', '', '{}', false, 0)"); err == nil {
				t.Error("the role chose an id")
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			at := events.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC))
			var sent []store.Entry
			for i, e := range []store.Entry{{}, {Meta: []byte(`{"k":"é\u0000"}`)}, {Targets: []string{"sub_1", "sub_2"}}, {}} {
				e.EventID, e.Timestamp, e.Data = fmt.Sprint("e", i), at, []byte(`{"text":"\\x41 ' \" é"}`)
				sent = append(sent, e)
				if err := s.EmitSQL(ctx, tx, prepared{Log: "log", Entry: e, Once: i%2 == 0}); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM "+schema+".outbox WHERE meta = '' OR targets = ''"); n != "0" {
				t.Errorf("%s rows have an empty value for none", n)
			}
			lease, err := s.Join(ctx, "sequencer", time.Minute, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			h := engine.ShardFence{Shard: engine.Shard{Topic: engine.OutboxTopic}, Fence: lease.Fence}
			if _, err := s.Establish(ctx, h.Shard.Topic, 1); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Claim(ctx, lease.Fence, []engine.ShardFence{{Shard: h.Shard}}); err != nil {
				t.Fatal(err)
			}
			done, err := s.Sequence(ctx, h, 10, func(context.Context, store.Outgoing) (fault, err error) { return nil, nil })
			if err != nil || done.Rejected != 0 {
				t.Fatal(done, err)
			}
			b, err := l.Read(ctx, 0, 10)
			if err != nil || len(b.Entries) != len(sent) {
				t.Fatalf("%+v, %v", b, err)
			}
			for i, e := range b.Entries {
				want := sent[i]
				if e.EventID != want.EventID || string(e.Data) != string(want.Data) || string(e.Meta) != string(want.Meta) ||
					(e.Meta == nil) != (want.Meta == nil) || !slices.Equal(e.Targets, want.Targets) || (e.Targets == nil) != (want.Targets == nil) ||
					e.Timestamp.String() != at.String() {
					t.Errorf("%d: %+v, want %+v", i, e, want)
				}
			}
		})
	}
}
