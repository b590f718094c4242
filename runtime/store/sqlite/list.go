package sqlite

import (
	"context"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ListSubscriptions implements [engine.Lister].
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) ([]engine.Listed, error) {
	where, args := "id > ?", []any{after}
	if failing {
		readable := s.box.Readable()
		where += " AND (suspended OR failed_since <> 0 OR substr(secrets, 1, ?) NOT IN (" + strings.Repeat(", ?", len(readable))[2:] + "))"
		args = append(args, len(readable[0]))
		for _, prefix := range readable {
			args = append(args, prefix)
		}
	}
	return collect(ctx, s, s.scanListed, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE "+where+" ORDER BY id LIMIT ?", append(args, limit)...)
}

// ListSubscription implements [engine.Lister].
func (s *Store) ListSubscription(ctx context.Context, id string) (l engine.Listed, ok bool, err error) {
	found, err := collect(ctx, s, s.scanListed, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE id = ?", id)
	if err != nil || len(found) == 0 {
		return l, false, err
	}
	return found[0], true, nil
}

// scanListed decodes a row of subscriptionColumns for a list.
func (s *Store) scanListed(row scanner) (engine.Listed, error) {
	sub, err := s.scanSubscription(row)
	return engine.ListedOf(sub, err, ErrCorrupt)
}
