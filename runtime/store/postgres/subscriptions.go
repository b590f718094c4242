package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const subscriptionColumns = "id, event, shard, principal, url, arguments, secrets, codes, generation, revision, created, refreshed, expires, " +
	"not_before, truncated, epoch, base, settled, open, upstream, suspended, suspended_after, failed_since, last_delivery, last_error, slow, paused_at, " +
	"admitted_generation, admitted, schema, requests, report"

// subscriptionValues contains the columns as named arguments.
var subscriptionValues = "@" + strings.ReplaceAll(subscriptionColumns, ", ", ", @")

// A subscriptionRow is the encoding of a subscription in the database.
type subscriptionRow struct {
	ID, Event                                        string
	Shard, Codes                                     int32
	Principal, URL, Arguments, Secrets               []byte
	Generation, Revision                             int64
	Created, Refreshed, Expires, NotBefore, PausedAt int64
	AdmittedGeneration, Admitted                     int64
	Truncated, Open, Suspended, Slow                 bool
	Epoch, Base                                      int64
	Settled                                          string
	Upstream                                         []byte
	SuspendedAfter, FailedSince, LastDelivery        int64
	LastError, Schema, Requests, Report              string
}

// subscriptionArgs returns the column values of a record's next revision.
func subscriptionArgs(sub store.Subscription, secrets []byte) pgx.NamedArgs {
	p, h := sub.Progress, sub.Health
	return pgx.NamedArgs{
		"id": sub.ID, "event": sub.Event, "shard": int32(sub.Shard), "codes": int32(sub.Codes), "schema": sub.Schema,
		"principal": []byte(sub.Principal), "url": []byte(sub.URL), "arguments": scalar.Bytes(sub.Arguments), "secrets": secrets,
		"generation": int64(sub.Generation), "revision": int64(sub.Revision + 1), "truncated": sub.Truncated,
		"created": scalar.Nanos(sub.CreatedAt), "refreshed": scalar.Nanos(sub.RefreshedAt), "expires": scalar.Nanos(sub.ExpiresAt),
		"not_before": scalar.Nanos(sub.NotBefore), "paused_at": scalar.Nanos(sub.PausedAt),
		"admitted_generation": int64(sub.Admitted.Generation), "admitted": int64(sub.Admitted.Position),
		"epoch": int64(p.Epoch), "base": int64(p.Base), "settled": scalar.Spans(p.Settled), "open": p.Open, "upstream": []byte(p.Upstream),
		"suspended": h.Suspended, "suspended_after": scalar.Nanos(h.SuspendedAfter), "failed_since": scalar.Nanos(h.FailedSince),
		"last_delivery": scalar.Nanos(h.LastDeliveryAt), "last_error": h.LastError, "slow": h.Slow, "requests": scalar.Requests(sub.Requests),
		"report": scalar.Report(sub.Report),
	}
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return s.put(ctx, sub, engine.Quota{}, nil)
}

// Admit implements [engine.Shared].
func (s *Store) Admit(ctx context.Context, sub store.Subscription, q engine.Quota) (uint64, error) {
	return s.put(ctx, sub, q, nil)
}

// put stores a record. Unless h is nil, the record must be in its shard.
func (s *Store) put(ctx context.Context, sub store.Subscription, q engine.Quota, h *engine.ShardFence) (uint64, error) {
	secrets, err := s.box.Seal(sub.ID, sub.Secrets)
	if err != nil {
		return 0, classify(err)
	}
	err = s.transact(ctx, h, func(ctx context.Context, tx pgx.Tx) error {
		if of := (engine.Shard{Topic: sub.Event, Number: sub.Shard}); h != nil && of != h.Shard {
			return fmt.Errorf("%w: it belongs to %v", engine.ErrFenced, of)
		}
		var stored, generation int64
		err := tx.QueryRow(ctx, s.qualify(`SELECT revision, generation FROM @.subscriptions WHERE id = $1 FOR UPDATE`), sub.ID).Scan(&stored, &generation)
		if err != nil && !isNoRows(err) {
			return err
		}
		switch {
		case uint64(stored) != sub.Revision:
			return store.ErrConflict
		case stored > 0 && uint64(generation) == sub.Generation:
			_, err := tx.Exec(ctx, s.qualify(`UPDATE @.subscriptions SET secrets = @secrets, codes = @codes, revision = @revision, refreshed = @refreshed,
				expires = @expires, truncated = @truncated, not_before = @not_before, paused_at = @paused_at, schema = @schema, requests = @requests WHERE id = @id`),
				subscriptionArgs(sub, secrets))
			return err
		case stored > 0:
			if _, err := tx.Exec(ctx, s.qualify(`DELETE FROM @.subscriptions WHERE id = $1`), sub.ID); err != nil {
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

// insertSubscription inserts a record with open progress. If counted is set, the record counts towards the quota.
func (s *Store) insertSubscription(ctx context.Context, tx pgx.Tx, sub store.Subscription, secrets []byte, q engine.Quota, counted bool) error {
	sub.Progress.Open = true
	tag, err := tx.Exec(ctx, s.qualify(`INSERT INTO @.subscriptions (`+subscriptionColumns+`) VALUES (`+subscriptionValues+`) ON CONFLICT (id) DO NOTHING`),
		subscriptionArgs(sub, secrets))
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 { // another process has inserted it meanwhile
		return store.ErrConflict
	}
	if !counted {
		return nil
	}
	return s.reserve(ctx, tx, subscriptionQuota, sub.Principal, q)
}

// Kinds of quotas per principal. The next number is the quota for all principals.
const (
	subscriptionQuota = 0
	verificationQuota = 2
)

// scanSubscription decodes a row of subscriptionColumns. If the record is damaged, it returns the id with the error.
func (s *Store) scanSubscription(row pgx.CollectableRow) (store.Subscription, error) {
	r, err := pgx.RowToStructByName[subscriptionRow](row)
	if err != nil {
		return store.Subscription{}, err
	}
	sub := store.Subscription{ID: r.ID, Event: r.Event, Shard: int(r.Shard), Codes: int(r.Codes), Schema: r.Schema,
		Principal: string(r.Principal), URL: string(r.URL), Arguments: r.Arguments,
		Generation: uint64(r.Generation), Revision: uint64(r.Revision), Truncated: r.Truncated,
		CreatedAt: scalar.Time(r.Created), RefreshedAt: scalar.Time(r.Refreshed), ExpiresAt: scalar.Time(r.Expires),
		NotBefore: scalar.Time(r.NotBefore), PausedAt: scalar.Time(r.PausedAt),
		Admitted: store.ControlPosition{Generation: uint64(r.AdmittedGeneration), Position: store.Position(r.Admitted)},
		Progress: store.Progress{Epoch: uint64(r.Epoch), Base: store.Position(r.Base), Open: r.Open, Upstream: string(r.Upstream)},
		Health: store.Health{Suspended: r.Suspended, SuspendedAfter: scalar.Time(r.SuspendedAfter), FailedSince: scalar.Time(r.FailedSince),
			LastDeliveryAt: scalar.Time(r.LastDelivery), LastError: r.LastError, Slow: r.Slow},
	}
	if sub.Secrets, err = s.box.Open(sub.ID, r.Secrets); err != nil {
		return sub, err
	}
	if err := scalar.ParseInto(&sub, r.Settled, r.Requests, r.Report); err != nil {
		return sub, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return sub, nil
}

// listSubscriptions reads up to limit records that match where and have ids greater than after, ordered by id. It logs
// and skips a record that cannot be read, so the other records remain usable. The record remains in the database.
func (s *Store) listSubscriptions(ctx context.Context, where, after string, limit int, args ...any) (subs []store.Subscription, err error) {
	sql := fmt.Sprintf("SELECT %s FROM @.subscriptions WHERE id > $1 %s ORDER BY id LIMIT $2", subscriptionColumns, where)
	for {
		asked, read := limit-len(subs), 0
		if asked <= 0 {
			return subs, nil
		}
		err := s.query(ctx, func(r pgx.CollectableRow) error {
			sub, err := s.scanSubscription(r)
			if err != nil && engine.Unreadable(err, ErrCorrupt) == "" {
				return err
			}
			read++
			after = sub.ID
			if err != nil {
				s.options.Logger.Error("mcp events: a webhook subscription cannot be read and is skipped", "subscription", sub.ID, "error", err)
				return nil
			}
			subs = append(subs, sub)
			return nil
		}, sql, append([]any{after, int64(asked)}, args...)...)
		if err != nil {
			return nil, err
		}
		if read < asked {
			return subs, nil
		}
	}
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	found, err := collect(ctx, s, s.scanSubscription, "SELECT "+subscriptionColumns+" FROM @.subscriptions WHERE id = $1", id)
	if err != nil || len(found) == 0 {
		return sub, false, err
	}
	return found[0], true, nil
}

// Subscriptions implements [store.SubscriptionStore].
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return s.listSubscriptions(ctx, "", after, limit)
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRecords(ctx, subscriptionQuota, principal)
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.delete(ctx, id, generation, nil)
}

func (s *Store) delete(ctx context.Context, id string, generation uint64, h *engine.ShardFence) error {
	where, args := "", []any{id, int64(generation)}
	if h != nil {
		where, args = " AND event = $3 AND shard = $4", append(args, h.Shard.Topic, int32(h.Shard.Number))
	}
	return s.transact(ctx, h, func(ctx context.Context, tx pgx.Tx) error {
		var principal []byte
		err := tx.QueryRow(ctx, s.qualify(`DELETE FROM @.subscriptions WHERE id = $1 AND generation = $2`+where+` RETURNING principal`), args...).Scan(&principal)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.qualify(`DELETE FROM @.attempts WHERE subscription = $1`), id); err != nil {
			return err
		}
		return s.unreserve(ctx, tx, subscriptionQuota, principal)
	})
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.saveProgress(ctx, updates, nil, nil)
}

// SaveAttempts implements [engine.Attempts].
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, tried [][]operator.Attempt) error {
	return s.saveProgress(ctx, updates, tried, nil)
}

// saveProgress stores updates and the attempts of each update, if given. For a process that does not use shards, h is
// nil.
func (s *Store) saveProgress(ctx context.Context, updates []store.Update, tried [][]operator.Attempt, h *engine.ShardFence) error {
	var u progressRows
	var attempts attemptRows
	byID := make(map[string]store.Update, len(updates))
	for i, x := range updates {
		if tried != nil {
			attempts.add(x, tried[i])
		}
		byID[x.ID] = x // the last of several updates applies
	}
	for _, x := range byID {
		u.add(x)
	}
	topic, number := any(nil), any(nil)
	if h != nil {
		topic, number = h.Shard.Topic, int32(h.Shard.Number)
	}
	err := s.write(ctx, func(b *pgx.Batch) {
		s.queueFenceCheck(b, h)
		// Lock rows in the order of their ids to prevent deadlocks.
		b.Queue(s.qualify(`SELECT 1 FROM @.subscriptions WHERE id = ANY ($1) ORDER BY id FOR UPDATE`), u.ids)
		b.Queue(s.qualify(`UPDATE @.subscriptions s SET epoch = u.epoch, base = u.base, settled = u.settled, open = u.open, upstream = u.upstream, suspended = u.suspended,
			suspended_after = u.suspended_after, failed_since = u.failed_since, last_delivery = u.last_delivery, last_error = u.last_error, slow = u.slow,
			report = u.report
			FROM unnest(@ids::text[], @generations::bigint[], @epochs::bigint[], @bases::bigint[], @settled::text[], @open::boolean[], @upstream::bytea[],
				@suspended::boolean[], @suspended_after::bigint[], @failed_since::bigint[], @last_delivery::bigint[], @last_error::text[], @slow::boolean[], @reports::text[])
				AS u (id, generation, epoch, base, settled, open, upstream, suspended, suspended_after, failed_since, last_delivery, last_error, slow, report)
			WHERE s.id = u.id AND s.generation = u.generation AND (@topic::text IS NULL OR s.event = @topic AND s.shard = @number::integer)`),
			pgx.NamedArgs{"ids": u.ids, "generations": u.generations, "epochs": u.epochs, "bases": u.bases, "settled": u.settled, "open": u.open, "upstream": u.upstream,
				"suspended": u.suspended, "suspended_after": u.suspendedAfter, "failed_since": u.failedSince, "last_delivery": u.lastDelivery,
				"last_error": u.lastError, "slow": u.slow, "reports": u.reports, "topic": topic, "number": number})
		s.saveAttempts(b, &attempts, topic, number)
	})
	for i, id := range attempts.ids {
		s.attempts.Grew(id, int(attempts.counts[i])) // after an error they may be stored as well
	}
	return err
}

// progressRows contains updates, with one array per column.
type progressRows struct {
	ids, settled, lastError, reports                                      []string
	generations, epochs, bases, suspendedAfter, failedSince, lastDelivery []int64
	upstream                                                              [][]byte
	open, suspended, slow                                                 []bool
}

func (u *progressRows) add(x store.Update) {
	p, h := x.Progress, x.Health
	u.ids, u.generations = append(u.ids, x.ID), append(u.generations, int64(x.Generation))
	u.epochs, u.bases, u.settled = append(u.epochs, int64(p.Epoch)), append(u.bases, int64(p.Base)), append(u.settled, scalar.Spans(p.Settled))
	u.open, u.upstream, u.suspended = append(u.open, p.Open), append(u.upstream, []byte(p.Upstream)), append(u.suspended, h.Suspended)
	u.suspendedAfter, u.failedSince = append(u.suspendedAfter, scalar.Nanos(h.SuspendedAfter)), append(u.failedSince, scalar.Nanos(h.FailedSince))
	u.lastDelivery, u.lastError = append(u.lastDelivery, scalar.Nanos(h.LastDeliveryAt)), append(u.lastError, h.LastError)
	u.slow, u.reports = append(u.slow, h.Slow), append(u.reports, scalar.Report(x.Report))
}
