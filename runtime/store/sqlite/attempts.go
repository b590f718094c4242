package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Attempts = (*Store)(nil)

// attemptsSQL is prepared only once, because a search for failed deliveries executes it thousands of times. It has no
// LIMIT, because SQLite would replan the statement for each bound value.
const attemptsSQL = "SELECT made FROM attempts WHERE subscription = ? ORDER BY sequence DESC"

// Attempts implements [engine.Attempts].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error) {
	if _, err := s.readPool(ctx); err != nil {
		return nil, err
	}
	rows, err := s.attemptsOf.QueryContext(ctx, subscription)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var encoded [][]byte
	for len(encoded) < limit && rows.Next() { // each row has at least one attempt
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, classify(err)
		}
		encoded = append(encoded, b)
	}
	if err := rows.Err(); err != nil {
		return nil, classify(err)
	}
	found, err := attemptlog.Latest(encoded, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return found, nil
}

// TrimAttempts implements [engine.Attempts].
func (s *Store) TrimAttempts(ctx context.Context, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	return s.attempts.Trim(ctx, attemptTable{s}, b, now, limit)
}

// attemptTable implements [attemptlog.Table].
type attemptTable struct{ s *Store }

func (t attemptTable) CountAttempts(ctx context.Context) (n int, err error) {
	_, err = t.s.queryRow(ctx, "SELECT coalesce(sum(count), 0) FROM attempts", nil, &n)
	return n, err
}

func (t attemptTable) Crowded(ctx context.Context, bound int) ([]string, error) {
	return collect(ctx, t.s, func(row scanner) (id string, err error) { return id, row.Scan(&id) },
		"SELECT subscription FROM attempts GROUP BY subscription HAVING sum(count) > ?", bound)
}

func (t attemptTable) rows(ctx context.Context, query string, args ...any) ([]attemptlog.Row, error) {
	return collect(ctx, t.s, func(row scanner) (r attemptlog.Row, err error) {
		err = row.Scan(&r.Sequence, &r.Last, &r.Count)
		return r, err
	}, query, args...)
}

func (t attemptTable) OldestRows(ctx context.Context, limit int) ([]attemptlog.Row, error) {
	return t.rows(ctx, "SELECT sequence, last, count FROM attempts ORDER BY sequence LIMIT ?", limit)
}

func (t attemptTable) RowsOf(ctx context.Context, subscription string, limit int) ([]attemptlog.Row, error) {
	return t.rows(ctx, "SELECT sequence, 0, count FROM attempts WHERE subscription = ? ORDER BY sequence DESC LIMIT ?", subscription, limit)
}

func (t attemptTable) DeleteRows(ctx context.Context, upTo int64) error {
	_, err := t.s.execChange(ctx, "DELETE FROM attempts WHERE sequence <= ?", upTo)
	return err
}

func (t attemptTable) DeleteRowsOf(ctx context.Context, subscription string, upTo int64, limit int) error {
	_, err := t.s.execChange(ctx, `DELETE FROM attempts WHERE sequence IN (
		SELECT sequence FROM attempts WHERE subscription = ? AND sequence <= ? ORDER BY sequence LIMIT ?)`, subscription, upTo, limit)
	return err
}
