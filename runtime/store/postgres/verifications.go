package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Verification implements [store.SubscriptionStore].
func (s *Store) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	var method string
	var at, until int64
	ok, err = s.queryRow(ctx, `SELECT method, at, until FROM @.verifications WHERE principal = $1 AND url = $2`,
		[]any{[]byte(principal), []byte(url)}, &method, &at, &until)
	if !ok {
		return v, false, err
	}
	return store.Verification{Principal: principal, URL: url, Method: method, At: scalar.Time(at), Until: scalar.Time(until)}, true, nil
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.AdmitVerification(ctx, v, engine.Quota{})
}

// AdmitVerification implements [engine.Shared].
func (s *Store) AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error {
	return s.transact(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		var fresh bool
		// xmax is 0 in a row that was inserted, not updated.
		err := tx.QueryRow(ctx, s.qualify(`INSERT INTO @.verifications (principal, url, method, at, until) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (principal, url) DO UPDATE SET method = excluded.method, at = excluded.at, until = excluded.until RETURNING xmax = 0`),
			[]byte(v.Principal), []byte(v.URL), v.Method, scalar.Nanos(v.At), scalar.Nanos(v.Until)).Scan(&fresh)
		if err != nil || !fresh {
			return err
		}
		return s.reserve(ctx, tx, verificationQuota, v.Principal, q)
	})
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	return s.transact(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.qualify(`DELETE FROM @.verifications WHERE principal = $1 AND url = $2`), []byte(principal), []byte(url))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.unreserve(ctx, tx, verificationQuota, []byte(principal))
	})
}

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRecords(ctx, verificationQuota, principal)
}

// SweepVerifications implements [store.SubscriptionStore].
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.transact(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.qualify(`WITH gone AS (
			SELECT principal, url FROM @.verifications v WHERE until > 0 AND until <= $1 AND NOT EXISTS (
				SELECT 1 FROM @.subscriptions s WHERE s.principal = v.principal AND s.url = v.url)
			LIMIT $2 FOR UPDATE SKIP LOCKED)
			DELETE FROM @.verifications v USING gone WHERE v.principal = gone.principal AND v.url = gone.url RETURNING v.principal`),
			scalar.Nanos(now), int64(max(limit, 0)))
		if err != nil {
			return err
		}
		principals, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		removed = len(principals)
		return s.unreserve(ctx, tx, verificationQuota, principals...)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
