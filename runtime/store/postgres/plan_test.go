package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// K9: PostgreSQL does not compile (jit) the queries of a tail, whatever it estimates that they cost; it used to compile
// each look at 16 logs. A session's plan, made when the store was new, finds entries by their positions.
func TestPlansOfLooks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	schema := pgtest.Schema(t)
	l := openLog(t, open(t, schema, postgres.Options{}), store.LogOptions{})
	config, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	var plans []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { plans = append(plans, n.Message) }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	// explained returns the plans of statements that read the schema's tables.
	explained := func(sql string) []string {
		t.Helper()
		plans = nil
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(slices.Clone(plans), func(plan string) bool {
			return !strings.Contains(plan, schema+".entries") && !strings.Contains(plan, `"`+schema+`".entries`)
		})
	}
	compiled := func(plan string) bool { return strings.Contains(plan, "JIT:") }
	if _, err := conn.PgConn().Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
		SET client_min_messages = log; SET jit = on; SET jit_above_cost = 0`).ReadAll(); err != nil {
		t.Skipf("plans cannot be read: %v", err)
	}
	if all := explained("SELECT count(*) FROM " + schema + ".entries"); !slices.ContainsFunc(all, compiled) {
		t.Skipf("this PostgreSQL compiles nothing: %q", all)
	}
	for range 2 {
		for _, sql := range []string{
			"SELECT * FROM " + schema + ".look(ARRAY(SELECT id FROM " + schema + ".logs), ARRAY[1])",
			"SELECT * FROM " + schema + ".newest(ARRAY(SELECT id FROM " + schema + ".logs), ARRAY[0], ARRAY[1], 1000)",
		} {
			if all := explained(sql); len(all) != 1 || compiled(all[0]) || !strings.Contains(all[0], "using entries_pkey") {
				t.Errorf("%s: %q", sql, all)
			}
		}
		if _, err := l.Append(ctx, entry("x")); err != nil {
			t.Fatal(err)
		}
	}
}
