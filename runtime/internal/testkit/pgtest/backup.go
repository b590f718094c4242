package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// deadlock is PostgreSQL's error code for a detected deadlock. It can occur because a server can hold locks that a
// restore needs.
const deadlock = "40P01"

// Backup copies the tables of a schema. The returned function restores the copy in one transaction, as pg_restore
// --clean does. It works even while other connections use the schema.
func Backup(t testing.TB, dsn, schema string) (restore func()) {
	t.Helper()
	copies := schema + "_copy"
	within := func(f func(ctx context.Context, tx pgx.Tx) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		for {
			err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return f(ctx, tx) })
			if err == nil {
				return
			}
			if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != deadlock {
				t.Fatal(err)
			}
		}
	}
	each := func(ctx context.Context, tx pgx.Tx, do func(table string) string) error {
		rows, _ := tx.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, table := range tables {
			if err == nil {
				_, err = tx.Exec(ctx, do(table))
			}
		}
		return err
	}
	within(func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+copies+" CASCADE; CREATE SCHEMA "+copies); err != nil {
			return err
		}
		return each(ctx, tx, func(table string) string {
			return "CREATE TABLE " + copies + "." + table + " AS TABLE " + schema + "." + table
		})
	})
	t.Cleanup(func() { Exec(t, dsn, "DROP SCHEMA IF EXISTS "+copies+" CASCADE") })
	return func() {
		t.Helper()
		within(func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil { // regardless of foreign keys
				return err
			}
			if err := each(ctx, tx, func(table string) string { return "TRUNCATE " + schema + "." + table + " CASCADE" }); err != nil {
				return err
			}
			return each(ctx, tx, func(table string) string {
				return "INSERT INTO " + schema + "." + table + " SELECT * FROM " + copies + "." + table
			})
		})
	}
}
