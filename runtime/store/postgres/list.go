package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Lister = (*Store)(nil)

// ListSubscriptions implements [engine.Lister].
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) ([]engine.Listed, error) {
	where, args := "id > $1", []any{after, int64(limit)}
	if failing {
		readable := s.box.Readable()
		where += " AND (suspended OR failed_since <> 0 OR substring(secrets FOR $3) <> ALL ($4))"
		args = append(args, int32(len(readable[0])), readable)
	}
	return collect(ctx, s, s.scanListed, "SELECT "+subscriptionColumns+" FROM @.subscriptions WHERE "+where+" ORDER BY id LIMIT $2", args...)
}

// ListSubscription implements [engine.Lister].
func (s *Store) ListSubscription(ctx context.Context, id string) (l engine.Listed, ok bool, err error) {
	found, err := collect(ctx, s, s.scanListed, "SELECT "+subscriptionColumns+" FROM @.subscriptions WHERE id = $1", id)
	if err != nil || len(found) == 0 {
		return l, false, err
	}
	return found[0], true, nil
}

// scanListed decodes a row of subscriptionColumns.
func (s *Store) scanListed(row pgx.CollectableRow) (engine.Listed, error) {
	sub, err := s.scanSubscription(row)
	return engine.ListedOf(sub, err, ErrCorrupt)
}
