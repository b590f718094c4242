package sqlite

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
)

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	db, err := s.queries(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM verifications WHERE principal = ?),
		(SELECT count(*) FROM verifications)`, principal).Scan(&own, &all)
	return own, all, classify(err)
}

// SweepVerifications implements [store.SubscriptionStore].
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.writer.do(ctx, func(ctx context.Context, w *session) error {
		r, err := w.exec(ctx, `DELETE FROM verifications WHERE (principal, url) IN (
			SELECT principal, url FROM verifications AS v WHERE until > 0 AND until <= ? AND NOT EXISTS (
				SELECT 1 FROM subscriptions AS s WHERE s.principal = v.principal AND s.url = v.url) LIMIT ?)`,
			scalar.Nanos(now), max(limit, 0))
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		removed = int(n)
		return err
	}, nil)
	return removed, err
}
