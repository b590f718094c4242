package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const subscriptionColumns = "id, event, shard, principal, url, arguments, secrets, codes, generation, revision, created, refreshed, expires, " +
	"not_before, truncated, epoch, base, settled, upstream, suspended, suspended_at, failed_since, last_delivery, last_error, paused_at, schema"

// nanos is how a caller's times are kept: Unix nanoseconds, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func encodeSpans(spans []store.Span) string {
	pairs := make([][2]store.Position, len(spans))
	for i, s := range spans {
		pairs[i] = [2]store.Position{s.From, s.To}
	}
	b, _ := json.Marshal(pairs) // numbers can always be encoded
	return string(b)
}

func decodeSpans(text string) (spans []store.Span, err error) {
	var pairs [][2]store.Position
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, err
	}
	for _, p := range pairs {
		spans = append(spans, store.Span{From: p[0], To: p[1]})
	}
	return spans, nil
}

// bytes keeps an absent value from being NULL.
func bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return s.put(ctx, sub, store.Quota{}, nil)
}

// Admit implements [store.Shared].
func (s *Store) Admit(ctx context.Context, sub store.Subscription, q store.Quota) (uint64, error) {
	return s.put(ctx, sub, q, nil)
}

// put stores a record; with a hold it must be of the shard.
func (s *Store) put(ctx context.Context, sub store.Subscription, q store.Quota, h *store.Hold) (uint64, error) {
	secrets, err := s.box.Seal(sub.ID, sub.Secrets)
	if err != nil {
		return 0, classify(err)
	}
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if h != nil {
			if err := s.check(ctx, tx, *h); err != nil {
				return err
			}
			if sub.Event != h.Shard.Topic || sub.Shard != h.Shard.Number {
				return fmt.Errorf("%w: it is of %v", store.ErrFenced, store.Shard{Topic: sub.Event, Number: sub.Shard})
			}
		}
		var stored, generation int64
		err := tx.QueryRow(ctx, s.in(`SELECT revision, generation FROM @.subscriptions WHERE id = $1 FOR UPDATE`), sub.ID).Scan(&stored, &generation)
		if err != nil && !none(err) {
			return err
		}
		switch {
		case uint64(stored) != sub.Revision:
			return store.ErrConflict
		case stored > 0 && uint64(generation) == sub.Generation:
			_, err := tx.Exec(ctx, s.in(`UPDATE @.subscriptions SET secrets = $2, codes = $3, revision = $4, refreshed = $5, expires = $6,
				truncated = $7, not_before = $8, paused_at = $9, schema = $10 WHERE id = $1`), sub.ID, secrets, int32(sub.Codes), int64(sub.Revision+1), nanos(sub.RefreshedAt),
				nanos(sub.ExpiresAt), sub.Truncated, nanos(sub.NotBefore), nanos(sub.PausedAt), sub.Schema)
			return err
		case stored > 0:
			if _, err := tx.Exec(ctx, s.in(`DELETE FROM @.subscriptions WHERE id = $1`), sub.ID); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, s.in(`DELETE FROM @.concerns WHERE subscription = $1`), sub.ID); err != nil {
				return err
			}
		}
		return s.insertSubscription(ctx, tx, sub, secrets, q, stored == 0)
	})
	if err != nil {
		return 0, fmt.Errorf("store subscription %s: %w", sub.ID, err)
	}
	return sub.Revision + 1, nil
}

// insertSubscription inserts a record with its first concern; counted tells that it takes of the quota.
func (s *Store) insertSubscription(ctx context.Context, tx pgx.Tx, sub store.Subscription, secrets []byte, q store.Quota, counted bool) error {
	p, h := sub.Progress, sub.Health
	tag, err := tx.Exec(ctx, s.in(`INSERT INTO @.subscriptions (`+subscriptionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
		$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26) ON CONFLICT (id) DO NOTHING`),
		sub.ID, sub.Event, int32(sub.Shard), []byte(sub.Principal), []byte(sub.URL), bytes(sub.Arguments), secrets, int32(sub.Codes),
		int64(sub.Generation), int64(sub.Revision+1), nanos(sub.CreatedAt), nanos(sub.RefreshedAt), nanos(sub.ExpiresAt),
		nanos(sub.NotBefore), sub.Truncated, int64(p.Epoch), int64(p.Base), encodeSpans(p.Settled), []byte(p.Upstream), h.Suspended,
		nanos(h.SuspendedAt), nanos(h.FailedSince), nanos(h.LastDeliveryAt), h.LastError, nanos(sub.PausedAt), sub.Schema)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 { // inserted by somebody else meanwhile
		return store.ErrConflict
	}
	if _, err := tx.Exec(ctx, s.in(`INSERT INTO @.concerns (subscription, log, generation, first) VALUES ($1, $2, $3, $4)`),
		sub.ID, sub.Event, int64(sub.Generation), int64(p.Base)+1); err != nil {
		return err
	}
	if !counted {
		return nil
	}
	return s.reserve(ctx, tx, subscriptionQuota, sub.Principal, q)
}

// Kinds of quotas: a principal's and, above it, everybody's.
const (
	subscriptionQuota = 0
	verificationQuota = 2
)

// scanSubscription reads one row of subscriptionColumns.
func (s *Store) scanSubscription(row pgx.CollectableRow) (sub store.Subscription, err error) {
	var principal, url, arguments, secrets, upstream []byte
	var settled string
	var shard, codes int32
	var generation, revision, created, refreshed, expires, notBefore, epoch, base, suspendedAt, failedSince, lastDelivery, pausedAt int64
	p, h := &sub.Progress, &sub.Health
	if err := row.Scan(&sub.ID, &sub.Event, &shard, &principal, &url, &arguments, &secrets, &codes, &generation, &revision, &created,
		&refreshed, &expires, &notBefore, &sub.Truncated, &epoch, &base, &settled, &upstream, &h.Suspended, &suspendedAt, &failedSince,
		&lastDelivery, &h.LastError, &pausedAt, &sub.Schema); err != nil {
		return sub, err
	}
	sub.Principal, sub.URL, sub.Arguments, sub.Shard, sub.Codes = string(principal), string(url), arguments, int(shard), int(codes)
	sub.Generation, sub.Revision = uint64(generation), uint64(revision)
	sub.CreatedAt, sub.RefreshedAt, sub.ExpiresAt, sub.NotBefore = fromNanos(created), fromNanos(refreshed), fromNanos(expires), fromNanos(notBefore)
	sub.PausedAt = fromNanos(pausedAt)
	p.Epoch, p.Base, p.Upstream = uint64(epoch), store.Position(base), string(upstream)
	h.SuspendedAt, h.FailedSince, h.LastDeliveryAt = fromNanos(suspendedAt), fromNanos(failedSince), fromNanos(lastDelivery)
	if sub.Secrets, err = s.box.Open(sub.ID, secrets); err != nil {
		return sub, err
	}
	if p.Settled, err = decodeSpans(settled); err != nil {
		return sub, fmt.Errorf("%w: positions of %s: %w", ErrCorrupt, sub.ID, err)
	}
	return sub, nil
}

// subscriptions reads the records of a query.
func (s *Store) subscriptions(ctx context.Context, where string, args ...any) (subs []store.Subscription, err error) {
	err = s.query(ctx, func(r pgx.CollectableRow) error {
		sub, err := s.scanSubscription(r)
		subs = append(subs, sub)
		return err
	}, "SELECT "+subscriptionColumns+" FROM @.subscriptions "+where, args...)
	if err != nil {
		return nil, err
	}
	return subs, nil
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	subs, err := s.subscriptions(ctx, "WHERE id = $1", id)
	if err != nil || len(subs) == 0 {
		return store.Subscription{}, false, err
	}
	return subs[0], true, nil
}

// Subscriptions implements [store.SubscriptionStore].
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return s.subscriptions(ctx, "WHERE id > $1 ORDER BY id LIMIT $2", after, int64(max(limit, 0)))
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	return s.count(ctx, subscriptionQuota, principal)
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.delete(ctx, id, generation, nil)
}

func (s *Store) delete(ctx context.Context, id string, generation uint64, h *store.Hold) error {
	where, args := "", []any{id, int64(generation)}
	if h != nil {
		where, args = " AND event = $3 AND shard = $4", append(args, h.Shard.Topic, int32(h.Shard.Number))
	}
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if h != nil {
			if err := s.check(ctx, tx, *h); err != nil {
				return err
			}
		}
		var principal []byte
		err := tx.QueryRow(ctx, s.in(`DELETE FROM @.subscriptions WHERE id = $1 AND generation = $2`+where+` RETURNING principal`), args...).Scan(&principal)
		if none(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.in(`DELETE FROM @.concerns WHERE subscription = $1`), id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.in(`DELETE FROM @.attempts WHERE subscription = $1`), id); err != nil {
			return err
		}
		return s.unreserve(ctx, tx, subscriptionQuota, principal)
	})
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.saveProgress(ctx, updates, nil)
}

func (s *Store) saveProgress(ctx context.Context, updates []store.Update, h *store.Hold) error {
	var u progressRows
	var attempts attemptRows
	byID := make(map[string]store.Update, len(updates))
	for _, x := range updates {
		attempts.add(x)
		byID[x.ID] = x // of several the last counts
	}
	for _, x := range byID {
		u.add(x)
	}
	topic, number := any(nil), any(nil)
	if h != nil {
		topic, number = h.Shard.Topic, int32(h.Shard.Number)
	}
	err := s.write(ctx, func(b *pgx.Batch) {
		if h != nil {
			s.held(b, *h)
		}
		// Locked in the order of their ids, so that nobody waits in a circle.
		b.Queue(s.in(`SELECT 1 FROM @.subscriptions WHERE id = ANY ($1) ORDER BY id FOR UPDATE`), u.ids)
		b.Queue(s.in(`UPDATE @.subscriptions s SET epoch = u.epoch, base = u.base, settled = u.settled, upstream = u.upstream, suspended = u.suspended,
			suspended_at = u.suspended_at, failed_since = u.failed_since, last_delivery = u.last_delivery, last_error = u.last_error
			FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::boolean[], $8::bigint[], $9::bigint[],
				$10::bigint[], $11::text[])
				AS u (id, generation, epoch, base, settled, upstream, suspended, suspended_at, failed_since, last_delivery, last_error)
			WHERE s.id = u.id AND s.generation = u.generation AND ($12::text IS NULL OR s.event = $12 AND s.shard = $13::integer)`),
			u.ids, u.generations, u.epochs, u.bases, u.settled, u.upstream, u.suspended, u.suspendedAt, u.failedSince, u.lastDelivery, u.lastError, topic, number)
		if len(u.idle) > 0 {
			b.Queue(s.in(`DELETE FROM @.concerns c USING unnest($1::text[], $2::bigint[]) AS u (id, generation), @.subscriptions s
				WHERE c.subscription = u.id AND s.id = u.id AND s.generation = u.generation
					AND ($3::text IS NULL OR s.event = $3 AND s.shard = $4::integer)`), u.idle, u.idleGenerations, topic, number)
		}
		s.saveAttempts(b, &attempts, topic, number)
	})
	for i, id := range attempts.ids {
		s.attempts.Grew(id, int(attempts.counts[i])) // after an error they may be there, too
	}
	return err
}

// progressRows are updates, one array a column.
type progressRows struct {
	ids, settled, lastError, idle                                                       []string
	generations, epochs, bases, suspendedAt, failedSince, lastDelivery, idleGenerations []int64
	upstream                                                                            [][]byte
	suspended                                                                           []bool
}

func (u *progressRows) add(x store.Update) {
	p, h := x.Progress, x.Health
	u.ids, u.generations = append(u.ids, x.ID), append(u.generations, int64(x.Generation))
	u.epochs, u.bases, u.settled = append(u.epochs, int64(p.Epoch)), append(u.bases, int64(p.Base)), append(u.settled, encodeSpans(p.Settled))
	u.upstream, u.suspended = append(u.upstream, []byte(p.Upstream)), append(u.suspended, h.Suspended)
	u.suspendedAt, u.failedSince = append(u.suspendedAt, nanos(h.SuspendedAt)), append(u.failedSince, nanos(h.FailedSince))
	u.lastDelivery, u.lastError = append(u.lastDelivery, nanos(h.LastDeliveryAt)), append(u.lastError, h.LastError)
	if x.Idle {
		u.idle, u.idleGenerations = append(u.idle, x.ID), append(u.idleGenerations, int64(x.Generation))
	}
}
