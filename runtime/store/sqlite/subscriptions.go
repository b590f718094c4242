package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const subscriptionColumns = "id, principal, url, event, arguments, codes, generation, revision, created, refreshed, expires, truncated, " +
	"suspended, suspended_after, failed_since, last_delivery, last_error, slow, not_before, paused_at, admitted_generation, admitted, requests, secrets, epoch, base, settled, open, upstream, report"

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	secrets, err := s.box.Seal(sub.ID, sub.Secrets)
	if err != nil {
		return 0, err
	}
	conflict := false
	p, h := sub.Progress, sub.Health
	settled, requests, report := scalar.Spans(p.Settled), scalar.Requests(sub.Requests), scalar.Report(sub.Report)
	err = s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		var stored, generation int64
		err := w.queryRow(ctx, "SELECT revision, generation FROM subscriptions WHERE id = ?", []any{sub.ID}, &stored, &generation)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if conflict = uint64(stored) != sub.Revision; conflict {
			return nil
		}
		if stored > 0 && uint64(generation) == sub.Generation {
			_, err = w.exec(ctx, "UPDATE subscriptions SET secrets = ?, codes = ?, revision = ?, refreshed = ?, expires = ?, truncated = ?, not_before = ?, paused_at = ?, requests = ? WHERE id = ?",
				secrets, sub.Codes, int64(sub.Revision+1), scalar.Nanos(sub.RefreshedAt), scalar.Nanos(sub.ExpiresAt), sub.Truncated, scalar.Nanos(sub.NotBefore), scalar.Nanos(sub.PausedAt), requests, sub.ID)
			return err
		}
		_, err = w.exec(ctx, "INSERT OR REPLACE INTO subscriptions ("+subscriptionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			sub.ID, sub.Principal, sub.URL, sub.Event, []byte(sub.Arguments), sub.Codes, int64(sub.Generation), int64(sub.Revision+1),
			scalar.Nanos(sub.CreatedAt), scalar.Nanos(sub.RefreshedAt), scalar.Nanos(sub.ExpiresAt), sub.Truncated,
			h.Suspended, scalar.Nanos(h.SuspendedAfter), scalar.Nanos(h.FailedSince), scalar.Nanos(h.LastDeliveryAt), h.LastError, h.Slow, scalar.Nanos(sub.NotBefore), scalar.Nanos(sub.PausedAt),
			int64(sub.Admitted.Generation), int64(sub.Admitted.Position), requests, secrets, int64(p.Epoch), int64(p.Base), settled, true, p.Upstream, report)
		return err
	}, nil)
	if err == nil && conflict {
		err = store.ErrConflict
	}
	if err != nil {
		return 0, fmt.Errorf("store subscription %s: %w", sub.ID, err)
	}
	return sub.Revision + 1, nil
}

// scanSubscription decodes a row of subscriptionColumns. If the record is damaged, it returns the readable fields with
// the error.
func (s *Store) scanSubscription(row scanner) (sub store.Subscription, err error) {
	var arguments, secrets []byte
	var generation, revision, created, refreshed, expires, suspendedAfter, failedSince, lastDelivery, notBefore, pausedAt, admittedGeneration, admitted, epoch, base int64
	var settled, requests, report string
	p, h := &sub.Progress, &sub.Health
	if err := row.Scan(&sub.ID, &sub.Principal, &sub.URL, &sub.Event, &arguments, &sub.Codes, &generation, &revision, &created, &refreshed, &expires,
		&sub.Truncated, &h.Suspended, &suspendedAfter, &failedSince, &lastDelivery, &h.LastError, &h.Slow, &notBefore, &pausedAt, &admittedGeneration, &admitted,
		&requests, &secrets, &epoch, &base, &settled, &p.Open, &p.Upstream, &report); err != nil {
		return sub, err
	}
	sub.Arguments, sub.Generation, sub.Revision = arguments, uint64(generation), uint64(revision)
	sub.Admitted = store.ControlPosition{Generation: uint64(admittedGeneration), Position: store.Position(admitted)}
	sub.CreatedAt, sub.RefreshedAt, sub.ExpiresAt = scalar.Time(created), scalar.Time(refreshed), scalar.Time(expires)
	sub.NotBefore, sub.PausedAt = scalar.Time(notBefore), scalar.Time(pausedAt)
	h.SuspendedAfter, h.FailedSince, h.LastDeliveryAt = scalar.Time(suspendedAfter), scalar.Time(failedSince), scalar.Time(lastDelivery)
	p.Epoch, p.Base = uint64(epoch), store.Position(base)
	if sub.Secrets, err = s.box.Open(sub.ID, secrets); err != nil {
		return sub, err
	}
	if err := scalar.ParseInto(&sub, settled, requests, report); err != nil {
		return sub, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return sub, nil
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	found, err := collect(ctx, s, s.scanSubscription, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE id = ?", id)
	if err != nil || len(found) == 0 {
		return sub, false, err
	}
	return found[0], true, nil
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		n, err := w.exec(ctx, "DELETE FROM subscriptions WHERE id = ? AND generation = ?", id, int64(generation))
		if err != nil || n == 0 {
			return err
		}
		_, err = w.exec(ctx, "DELETE FROM attempts WHERE subscription = ?", id)
		return err
	}, nil)
}

// Subscriptions implements [store.SubscriptionStore]. It logs and skips a record that cannot be read, so the server can
// start. The record remains in the file.
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (subs []store.Subscription, err error) {
	for more := true; more && len(subs) < limit; {
		page, err := collect(ctx, s, s.scanReadable, "SELECT "+subscriptionColumns+" FROM subscriptions WHERE id > ? ORDER BY id LIMIT ?", after, limit-len(subs))
		if err != nil {
			return nil, err
		}
		more = len(page) == limit-len(subs)
		for _, r := range page {
			if after = r.ID; r.err != nil {
				s.logger.Error("mcp events: a webhook subscription cannot be read and is skipped", "subscription", r.ID, "error", r.err)
				continue
			}
			subs = append(subs, r.Subscription)
		}
	}
	return subs, nil
}

// A readable is a subscription, or the fields that could be read and why the others could not.
type readable struct {
	store.Subscription
	err error
}

// scanReadable decodes a row of subscriptionColumns. A damaged record is not an error.
func (s *Store) scanReadable(row scanner) (r readable, err error) {
	r.Subscription, r.err = s.scanSubscription(row)
	if engine.Unreadable(r.err, ErrCorrupt) == "" {
		return r, r.err
	}
	return r, nil
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRows(ctx, "subscriptions", principal)
}

// countSQL reads the counters maintained by a table's triggers: the number of a principal's rows and the total number
// of rows.
const countSQL = "SELECT coalesce((SELECT used FROM quotas WHERE kind = ?1 AND principal = ?2), 0), coalesce((SELECT used FROM totals WHERE kind = ?1), 0)"

// countRows returns the number of the principal's rows and the total number of rows. The cost does not depend on the
// number of rows.
func (s *Store) countRows(ctx context.Context, kind, principal string) (own, all int, err error) {
	_, err = s.queryRow(ctx, countSQL, []any{kind, principal}, &own, &all)
	return own, all, err
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.SaveAttempts(ctx, updates, make([][]operator.Attempt, len(updates)))
}

// SaveAttempts implements [engine.Attempts].
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	settled, reports := make([]string, len(updates)), make([]string, len(updates))
	encoded := make([][]byte, len(updates)) // attempts
	for i, u := range updates {
		if len(made[i]) > 0 {
			encoded[i] = attemptlog.Encode(made[i])
		}
		settled[i], reports[i] = scalar.Spans(u.Progress.Settled), scalar.Report(u.Report)
	}
	var kept []int // updates whose attempts were stored
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		kept = nil // apply may run twice
		for i, u := range updates {
			p, h := u.Progress, u.Health
			n, err := w.exec(ctx, "UPDATE subscriptions SET epoch = ?, base = ?, settled = ?, open = ?, upstream = ?, suspended = ?, suspended_after = ?, failed_since = ?, last_delivery = ?, last_error = ?, slow = ?, report = ? WHERE id = ? AND generation = ?",
				int64(p.Epoch), int64(p.Base), settled[i], p.Open, p.Upstream, h.Suspended, scalar.Nanos(h.SuspendedAfter), scalar.Nanos(h.FailedSince), scalar.Nanos(h.LastDeliveryAt), h.LastError, h.Slow, reports[i], u.ID, int64(u.Generation))
			if err != nil {
				return err
			}
			if n == 0 || encoded[i] == nil {
				continue
			}
			last := made[i][len(made[i])-1].At
			if _, err := w.exec(ctx, "INSERT INTO attempts (subscription, last, count, made) VALUES (?, ?, ?, ?)",
				u.ID, scalar.Nanos(last), len(made[i]), encoded[i]); err != nil {
				return err
			}
			kept = append(kept, i)
		}
		return nil
	}, func() {
		for _, i := range kept {
			s.attempts.Grew(updates[i].ID, len(made[i]))
		}
	})
}

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	_, err := s.execChange(ctx, "INSERT INTO marks (log, position) VALUES (?, ?) ON CONFLICT (log) DO UPDATE SET position = max(position, excluded.position)", log, int64(to))
	return err
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	var position int64
	_, err := s.queryRow(ctx, "SELECT position FROM marks WHERE log = ?", []any{log}, &position)
	return store.Position(position), err
}

// Verification implements [store.SubscriptionStore].
func (s *Store) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	var at, until int64
	if ok, err = s.queryRow(ctx, "SELECT method, at, until FROM verifications WHERE principal = ? AND url = ?", []any{principal, url}, &v.Method, &at, &until); !ok {
		return store.Verification{}, false, err
	}
	v.Principal, v.URL, v.At, v.Until = principal, url, scalar.Time(at), scalar.Time(until)
	return v, true, nil
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	_, err := s.execChange(ctx, "INSERT OR REPLACE INTO verifications (principal, url, method, at, until) VALUES (?, ?, ?, ?, ?)", v.Principal, v.URL, v.Method, scalar.Nanos(v.At), scalar.Nanos(v.Until))
	return err
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	_, err := s.execChange(ctx, "DELETE FROM verifications WHERE principal = ? AND url = ?", principal, url)
	return err
}
