package sqlite

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
)

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRows(ctx, "verifications", principal)
}

// SweepVerifications implements [store.SubscriptionStore].
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	n, err := s.execChange(ctx, `DELETE FROM verifications WHERE (principal, url) IN (
		SELECT principal, url FROM verifications AS v WHERE until > 0 AND until <= ? AND NOT EXISTS (
			SELECT 1 FROM subscriptions AS s WHERE s.principal = v.principal AND s.url = v.url) LIMIT ?)`,
		scalar.Nanos(now), max(limit, 0))
	return int(n), err
}
