package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// K5: the cost of a retention step does not depend on what else has expired, nor on rows that were deleted before and
// remain in the table because of a long snapshot.
func TestRetainIsLinear(t *testing.T) {
	t.Parallel()
	const limit = 500
	ctx := t.Context()
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{})
	if _, err := s.OpenLog(ctx, "log", store.LogOptions{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Establish(ctx, engine.RetentionTopic, 1); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Join(ctx, "r", time.Hour, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.RetentionTopic}, Fence: lease.Fence}
	if won, err := s.Claim(ctx, lease.Fence, []engine.ShardFence{{Shard: h.Shard}}); err != nil || len(won) != 1 {
		t.Fatal(won, err)
	}
	head := 0
	fill := func(n int, age string) {
		t.Helper()
		pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`INSERT INTO %[1]s.entries SELECT l.id, g, now() - interval '%[4]s', g::text::bytea, g, '',
			'2026-01-01T00:00:00Z', '{}', NULL, NULL, '' FROM %[1]s.logs l, generate_series(%[2]d, %[3]d) g WHERE name = 'log'`,
			schema, head+1, head+n, age), fmt.Sprintf("UPDATE %s.logs SET head = %d WHERE name = 'log'", schema, head+n))
		head += n
	}
	step := func() (more bool) {
		t.Helper()
		more, err := s.Retain(ctx, h, limit)
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	fill(2*limit, "2 h")
	pgtest.Exec(t, pgtest.URL(t), "VACUUM ANALYZE "+schema+".entries")
	few := s.DueBlocks(t, limit)
	fill(50_000, "2 h")
	pgtest.Exec(t, pgtest.URL(t), "VACUUM ANALYZE "+schema+".entries")
	many := s.DueBlocks(t, limit)
	t.Logf("finding what is due touches %.0f blocks of %d expired entries, %.0f of %d", few, 2*limit, many, head)
	const levels = 4 // maximum number of additional index levels
	if many > 2*few+levels {
		t.Errorf("finding what is due touches %.0f blocks with %d expired entries, %.0f with %d", few, 2*limit, many, head)
	}

	tx, err := connect(t).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	fill(300, "0 h")
	none := s.DeleteBlocks(t, "log")
	steps := 1
	for step() {
		steps++
	}
	if want := (head - 300 + limit - 1) / limit; steps < want || steps > want+1 {
		t.Errorf("%d steps, want %d", steps, want)
	}
	if left := pgtest.Query(t, pgtest.URL(t), "SELECT count(*) || ' ' || min(position) FROM "+schema+".entries"); left != fmt.Sprint(300, " ", head-299) {
		t.Errorf("there are %s", left)
	}
	if dead := s.DeleteBlocks(t, "log"); dead > 2*none+levels {
		t.Errorf("deleting nothing touches %.0f blocks beside what was deleted, %.0f before", dead, none)
	}
	if after := s.DueBlocks(t, limit); after > 2*few+levels {
		t.Errorf("finding what is due touches %.0f blocks beside what was deleted, %.0f before", after, few)
	}
}
