package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// reserve counts a record towards the principal's quota and the total quota. It locks the rows in this order to prevent
// deadlocks.
func (s *Store) reserve(ctx context.Context, tx pgx.Tx, kind int32, principal string, q engine.Quota) error {
	for _, of := range []struct {
		kind      int32
		principal []byte
		limit     int
	}{{kind, []byte(principal), q.Own}, {kind + 1, []byte{}, q.All}} {
		tag, err := tx.Exec(ctx, s.qualify(`INSERT INTO @.quotas AS q (kind, principal, used) VALUES ($1, $2, 1)
			ON CONFLICT (kind, principal) DO UPDATE SET used = q.used + 1 WHERE $3::bigint <= 0 OR q.used < $3::bigint`), of.kind, of.principal, int64(of.limit))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return &engine.QuotaError{Own: of.kind == kind, Limit: of.limit}
		}
	}
	return nil
}

// unreserve subtracts deleted records from their principals' quotas and the total quota.
func (s *Store) unreserve(ctx context.Context, tx pgx.Tx, kind int32, principals ...[]byte) error {
	if len(principals) == 0 {
		return nil
	}
	slices.SortFunc(principals, slices.Compare) // always locked in the same order
	b := &pgx.Batch{}
	b.Queue(s.qualify(`SELECT 1 FROM @.quotas WHERE kind = $1 AND principal = ANY ($2) ORDER BY principal FOR UPDATE`), kind, principals)
	b.Queue(s.qualify(`UPDATE @.quotas q SET used = q.used - u.n FROM (SELECT p, count(*) AS n FROM unnest($2::bytea[]) AS u (p) GROUP BY p) u
		WHERE q.kind = $1 AND q.principal = u.p`), kind, principals)
	b.Queue(s.qualify(`DELETE FROM @.quotas WHERE kind = $1 AND principal = ANY ($2) AND used <= 0`), kind, principals)
	b.Queue(s.qualify(`UPDATE @.quotas SET used = used - $2 WHERE kind = $1`), kind+1, int64(len(principals)))
	return tx.SendBatch(ctx, b).Close()
}

// countRecords returns the number of the principal's records and the total number of records.
func (s *Store) countRecords(ctx context.Context, kind int32, principal string) (own, all int, err error) {
	err = s.query(ctx, func(r pgx.CollectableRow) error {
		var of int32
		var used int64
		if err := r.Scan(&of, &used); err != nil {
			return err
		}
		if of == kind {
			own = int(used)
		} else {
			all = int(used)
		}
		return nil
	}, `SELECT kind, used FROM @.quotas WHERE kind = $1 AND principal = $2 OR kind = $1 + 1`, kind, []byte(principal))
	return own, all, err
}
