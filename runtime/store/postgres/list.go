package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Lister = (*Store)(nil)

// ListSubscriptions implements [engine.Lister]. It reads the ids from an index, and reads records only for unknown ids.
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, known func(id string) bool) ([]engine.Listed, error) {
	ids, err := collect(ctx, s, pgx.RowTo[string], "SELECT id FROM @.subscriptions WHERE id > $1 ORDER BY id LIMIT $2", after, int64(limit))
	if err != nil {
		return nil, err
	}
	subs := make([]engine.Listed, len(ids))
	var unknown []string
	for i, id := range ids {
		if subs[i].ID = id; !known(id) {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return subs, nil
	}
	records, err := collect(ctx, s, s.scanListed, "SELECT "+subscriptionColumns+" FROM @.subscriptions WHERE id = ANY($1) ORDER BY id", unknown)
	if err != nil {
		return nil, err
	}
	for i := range subs { // a subscription that ended between the queries is listed by its id
		if len(records) > 0 && subs[i].ID == records[0].ID {
			subs[i], records = records[0], records[1:]
		}
	}
	return subs, nil
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
