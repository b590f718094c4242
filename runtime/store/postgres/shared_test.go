package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// pgxTransaction is an author's transaction by pgx, sqlTransaction one by database/sql.
type pgxTransaction struct {
	ctx context.Context
	s   *postgres.Store
	tx  pgx.Tx
}

func (x pgxTransaction) Emit(p store.Prepared) error { return x.s.EmitPgx(x.ctx, x.tx, p) }
func (x pgxTransaction) Commit() error               { return x.tx.Commit(x.ctx) }
func (x pgxTransaction) Rollback() error             { return x.tx.Rollback(x.ctx) }

type sqlTransaction struct {
	ctx context.Context
	s   *postgres.Store
	*sql.Tx
}

func (x sqlTransaction) Emit(p store.Prepared) error { return x.s.EmitSQL(x.ctx, x.Tx, p) }

func beginPgx(t *testing.T, s engine.Shared) enginetest.Transaction {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return pgxTransaction{ctx, s.(*postgres.Store), tx}
}

func beginSQL(t *testing.T, s engine.Shared) enginetest.Transaction {
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return sqlTransaction{t.Context(), s.(*postgres.Store), tx}
}

// TestShared runs the suite for two openers with notifications, and with all of them lost.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		o     postgres.Options
		begin func(*testing.T, engine.Shared) enginetest.Transaction
	}{
		{"listening", postgres.Options{}, beginPgx},
		{"REP-2 notifications are lost", postgres.Options{Poll: 20 * time.Millisecond, Pooled: true}, beginSQL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var schema string
			enginetest.TestShared(t, enginetest.Shared{
				Open: func(t *testing.T) (a, b engine.Shared) {
					schema = pgtest.Schema(t)
					return open(t, schema, c.o), open(t, schema, c.o)
				},
				Slow: func(t *testing.T, _ engine.Shared) {
					pgtest.Exec(t, pgtest.URL(t),
						`CREATE FUNCTION `+schema+`.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$`,
						`CREATE TRIGGER slow BEFORE UPDATE ON `+schema+`.subscriptions FOR EACH ROW EXECUTE FUNCTION `+schema+`.slow()`)
				},
				Begin: c.begin,
			})
		})
	}
}
