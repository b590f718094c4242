package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ListSubscriptions implements [engine.Lister].
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) (subs []engine.Listed, err error) {
	where, args := "id > ?", []any{after}
	if failing {
		readable := s.box.Readable()
		where += " AND (suspended OR failed_since <> 0 OR substr(secrets, 1, ?) NOT IN (" + strings.Repeat(", ?", len(readable))[2:] + "))"
		args = append(args, len(readable[0]))
		for _, prefix := range readable {
			args = append(args, prefix)
		}
	}
	err = s.forEachRow(ctx, func(rows *sql.Rows) error {
		sub, err := s.scanListed(rows)
		subs = append(subs, sub)
		return err
	}, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE "+where+" ORDER BY id LIMIT ?", append(args, limit)...)
	return subs, err
}

// ListSubscription implements [engine.Lister].
func (s *Store) ListSubscription(ctx context.Context, id string) (engine.Listed, bool, error) {
	db, err := s.readPool(ctx)
	if err != nil {
		return engine.Listed{}, false, err
	}
	sub, err := s.scanListed(db.QueryRowContext(ctx, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return engine.Listed{}, false, nil
	}
	return sub, err == nil, classify(err)
}

// scanListed decodes a row of subscriptionColumns for a list.
func (s *Store) scanListed(row scanner) (engine.Listed, error) {
	sub, err := s.scanSubscription(row)
	return engine.ListedOf(sub, err, ErrCorrupt)
}
