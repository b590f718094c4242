package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ListSubscriptions implements [engine.Lister]. It reads the ids from an index, so listing a known subscription costs
// only a tenth of listing an unknown one.
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) (subs []engine.Listed, err error) {
	all := true
	err = s.forEachRow(ctx, func(rows *sql.Rows) error {
		var sub engine.Listed
		err := rows.Scan(&sub.ID)
		all = all && known(sub.ID)
		subs = append(subs, sub)
		return err
	}, "SELECT id FROM subscriptions WHERE id > ? ORDER BY id LIMIT ?", after, limit)
	if err != nil || all {
		return subs, err
	}
	subs = subs[:0]
	err = s.forEachRow(ctx, func(rows *sql.Rows) error {
		sub, err := s.scanListed(rows)
		if known(sub.ID) {
			sub = engine.Listed{Subscription: store.Subscription{ID: sub.ID}}
		}
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
