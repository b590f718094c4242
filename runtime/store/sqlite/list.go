package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ListSubscriptions implements [engine.Lister].
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int) (subs []engine.Listed, err error) {
	err = s.forEachRow(ctx, func(rows *sql.Rows) error {
		sub, err := s.scanListed(rows)
		subs = append(subs, sub)
		return err
	}, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE id > ? ORDER BY id LIMIT ?", after, limit)
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
