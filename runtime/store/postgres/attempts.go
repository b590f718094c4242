package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Attempts = (*Store)(nil)

// attemptRows contains the attempts of updates, with one array per column.
type attemptRows struct {
	ids                []string
	generations, lasts []int64
	counts             []int32
	made               [][]byte
}

func (r *attemptRows) add(u store.Update, made []operator.Attempt) {
	if len(made) == 0 {
		return
	}
	r.ids, r.generations = append(r.ids, u.ID), append(r.generations, int64(u.Generation))
	r.lasts = append(r.lasts, scalar.Nanos(made[len(made)-1].At))
	r.counts, r.made = append(r.counts, int32(len(made))), append(r.made, attemptlog.Encode(made))
}

// saveAttempts stores the attempts of existing subscriptions. If a shard is given, subscriptions in other shards are
// ignored.
func (s *Store) saveAttempts(b *pgx.Batch, r *attemptRows, topic, number any) {
	if len(r.ids) == 0 {
		return
	}
	b.Queue(s.qualify(`INSERT INTO @.attempts (subscription, last, count, made) SELECT u.id, u.last, u.count, u.made
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[]) AS u (id, generation, last, count, made)
		JOIN @.subscriptions s ON s.id = u.id AND s.generation = u.generation AND ($6::text IS NULL OR s.event = $6 AND s.shard = $7::integer)`),
		r.ids, r.generations, r.lasts, r.counts, r.made, topic, number)
}

// Attempts implements [engine.Attempts].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error) {
	encoded, err := collect(ctx, s, pgx.RowTo[[]byte],
		`SELECT made FROM @.attempts WHERE subscription = $1 ORDER BY sequence DESC LIMIT $2`, subscription, int64(max(limit, 0)))
	if err != nil {
		return nil, err
	}
	found, err := attemptlog.Latest(encoded, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %s: %w", subscription, err)
	}
	return found, nil
}

// TrimAttempts implements [engine.Attempts]. Several replicas can trim concurrently. Each replica enforces
// PerSubscription only for subscriptions that it has written attempts for. Any replica can delete attempts that exceed
// MaxAge or Total.
func (s *Store) TrimAttempts(ctx context.Context, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	return s.attempts.Trim(ctx, attemptTable{s}, b, now, limit)
}

// attemptTable implements [attemptlog.Table].
type attemptTable struct{ s *Store }

func (t attemptTable) CountAttempts(ctx context.Context) (n int, err error) {
	_, err = t.s.queryRow(ctx, `SELECT coalesce(sum(count), 0)::bigint FROM @.attempts`, nil, &n)
	return n, err
}

func (t attemptTable) Crowded(ctx context.Context, bound int) ([]string, error) {
	return collect(ctx, t.s, pgx.RowTo[string], `SELECT subscription FROM @.attempts GROUP BY subscription HAVING sum(count) > $1`, int64(bound))
}

func (t attemptTable) rows(ctx context.Context, query string, args ...any) ([]attemptlog.Row, error) {
	return collect(ctx, t.s, pgx.RowToStructByName[attemptlog.Row], query, args...)
}

func (t attemptTable) OldestRows(ctx context.Context, limit int) ([]attemptlog.Row, error) {
	return t.rows(ctx, `SELECT sequence, last, count FROM @.attempts ORDER BY sequence LIMIT $1`, int64(limit))
}

func (t attemptTable) RowsOf(ctx context.Context, subscription string, limit int) ([]attemptlog.Row, error) {
	return t.rows(ctx, `SELECT sequence, last, count FROM @.attempts WHERE subscription = $1 ORDER BY sequence DESC LIMIT $2`, subscription, int64(limit))
}

func (t attemptTable) DeleteRows(ctx context.Context, upTo int64) error {
	return t.s.write(ctx, func(b *pgx.Batch) { b.Queue(t.s.qualify(`DELETE FROM @.attempts WHERE sequence <= $1`), upTo) })
}

func (t attemptTable) DeleteRowsOf(ctx context.Context, subscription string, upTo int64, limit int) error {
	return t.s.write(ctx, func(b *pgx.Batch) {
		b.Queue(t.s.qualify(`DELETE FROM @.attempts WHERE sequence IN (
			SELECT sequence FROM @.attempts WHERE subscription = $1 AND sequence <= $2 ORDER BY sequence LIMIT $3)`), subscription, upTo, int64(limit))
	})
}
