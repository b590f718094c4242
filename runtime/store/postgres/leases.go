package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// fenceBits is the number of low bits of a fence that are used within a generation. The higher bits contain the
// generation, so a fence lost in a failover is not assigned again (REP-19). The low bits follow the database's clock,
// in hundredths of a second, so a restored backup does not assign them again either.
const fenceBits = 40

func encodeTypes(types map[string]string) (string, error) {
	if types == nil {
		types = map[string]string{}
	}
	b, err := json.Marshal(types)
	return string(b), err
}

// Join implements [engine.Leases].
func (s *Store) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (l engine.Lease, err error) {
	text, err := encodeTypes(types)
	if err != nil {
		return l, err
	}
	var in incarnation
	err = s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.qualify(`WITH f AS (
			UPDATE @.store SET last_fence = greatest(last_fence + 1, (extract(epoch FROM clock_timestamp()) * 100)::bigint) RETURNING (generation << $1::integer) + last_fence AS fence, generation, salt
		), granted AS (SELECT *, clock_timestamp() AS now FROM f),
		lease AS (INSERT INTO @.leases (fence, name, expires, types, report) SELECT fence, $2, now + $3::bigint * interval '1 microsecond', $4, $5 FROM granted)
		SELECT fence, now, generation, salt FROM granted`), int32(fenceBits), name, ttl.Microseconds(), text, []byte(report)).
			QueryRow(func(row pgx.Row) error { return scanLease(row, &l, &in.generation, &in.salt) })
	})
	if known, _ := s.currentIncarnation(); err == nil && known != in {
		// New epochs began concurrently. A replica with this lease must not read logs of the earlier epochs.
		err = classify(s.callWithRetry(ctx, s.joinGeneration))
	}
	if err != nil {
		return engine.Lease{}, err
	}
	return l, nil
}

// scanLease decodes a fence and the time of the database's clock. The remaining columns are scanned into more.
func scanLease(row pgx.Row, l *engine.Lease, more ...any) error {
	var fence int64
	if err := row.Scan(append([]any{&fence, &l.Now}, more...)...); err != nil {
		return err
	}
	l.Fence = uint64(fence)
	return nil
}

// Renew implements [engine.Leases].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (l engine.Lease, err error) {
	text, err := encodeTypes(types)
	if err != nil {
		return l, err
	}
	err = s.write(ctx, func(b *pgx.Batch) {
		l = engine.Lease{}
		b.Queue(s.qualify(`UPDATE @.leases SET expires = clock_timestamp() + $2::bigint * interval '1 microsecond', types = $3, report = $4
			WHERE fence = $1 AND expires > clock_timestamp() RETURNING fence, clock_timestamp()`), int64(fence), ttl.Microseconds(), text, []byte(report)).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					if err := scanLease(rows, &l); err != nil {
						return err
					}
				}
				return rows.Err()
			})
	})
	switch {
	case err != nil:
		return engine.Lease{}, err
	case l.Fence == 0:
		return engine.Lease{}, fmt.Errorf("lease %d has expired: %w", fence, engine.ErrFenced)
	}
	return l, nil
}

// Leave implements [engine.Leases].
func (s *Store) Leave(ctx context.Context, fence uint64) error {
	return s.write(ctx, func(b *pgx.Batch) { b.Queue(s.qualify(`DELETE FROM @.leases WHERE fence = $1`), int64(fence)) })
}

// Now implements [engine.Shared].
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	_, err = s.queryRow(ctx, `SELECT clock_timestamp()`, nil, &now)
	return now, err
}

// clusterSQL reads the whole cluster in one statement, because every process executes it once per second.
const clusterSQL = `SELECT @.begin_write($1, $2, $3)::text, l.expired, l.fences, l.names, l.types, l.reports, s.topics, s.numbers, s.fences
	FROM (SELECT count(*) FILTER (WHERE expires <= clock_timestamp()) > 0 AS expired, coalesce(array_agg(fence ORDER BY fence), '{}') AS fences,
			coalesce(array_agg(name ORDER BY fence), '{}') AS names, coalesce(array_agg(types ORDER BY fence), '{}') AS types,
			coalesce(array_agg(report ORDER BY fence), '{}') AS reports FROM @.leases) AS l,
		(SELECT coalesce(array_agg(topic::text ORDER BY topic, number), '{}') AS topics, coalesce(array_agg(number ORDER BY topic, number), '{}') AS numbers,
			coalesce(array_agg(fence ORDER BY topic, number), '{}') AS fences FROM @.shards) AS s`

// Cluster implements [engine.Leases]. It deletes expired leases, so they remain ended for every process even if the
// clock is set back.
func (s *Store) Cluster(ctx context.Context) (engine.Cluster, error) {
	c, expired, err := s.cluster(ctx)
	if err == nil && expired {
		err = s.write(ctx, func(b *pgx.Batch) { b.Queue(s.qualify(`DELETE FROM @.leases WHERE expires <= clock_timestamp()`)) })
		if err == nil {
			c, _, err = s.cluster(ctx)
		}
	}
	if err != nil {
		return engine.Cluster{}, err
	}
	return c, nil
}

func (s *Store) cluster(ctx context.Context) (c engine.Cluster, expired bool, err error) {
	var fences, holders []int64
	var names, types, topics []string
	var reports [][]byte
	var numbers []int32
	err = s.callWithRetry(ctx, func(ctx context.Context) error {
		now, timeline := s.currentIncarnation()
		return s.pool.QueryRow(ctx, s.qualify(clusterSQL), now.generation, timeline, s.durable).
			Scan(nil, &expired, &fences, &names, &types, &reports, &topics, &numbers, &holders)
	})
	if err != nil {
		return c, false, classify(err)
	}
	for i, fence := range fences {
		c.Replicas = append(c.Replicas, engine.Replica{Name: names[i], Fence: uint64(fence), Types: s.decodeTypes(fence, names[i], types[i]), Report: reports[i]})
	}
	for i, topic := range topics {
		c.Shards = append(c.Shards, engine.ShardFence{Shard: engine.Shard{Topic: topic, Number: int(numbers[i])}, Fence: uint64(holders[i])})
	}
	return c, expired, nil
}

// decodeTypes decodes the event types of a lease. If they are damaged, it logs an error and returns nil.
func (s *Store) decodeTypes(fence int64, name, text string) (types map[string]string) {
	if err := json.Unmarshal([]byte(text), &types); err != nil { // otherwise no process could claim anything until the lease expires
		s.options.Logger.Error("mcp events: the event types of a lease cannot be read", "lease", fence, "name", name, "error", err)
		return nil
	}
	return types
}

func scanHold(row pgx.CollectableRow) (h engine.ShardFence, err error) {
	var number int32
	var fence int64
	err = row.Scan(&h.Shard.Topic, &number, &fence)
	h.Shard.Number, h.Fence = int(number), uint64(fence)
	return h, err
}

// maxShards is the maximum number of shards per topic.
const maxShards = 4096

// Establish implements [engine.Leases].
func (s *Store) Establish(ctx context.Context, topic string, n int) (int, error) {
	if n < 1 || n > maxShards {
		return 0, fmt.Errorf("a topic has 1 to %d shards, not %d", maxShards, n)
	}
	var stands int32
	err := s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.qualify(`INSERT INTO @.topics (name, shards) VALUES ($1, $2) ON CONFLICT DO NOTHING`), topic, int32(n))
		b.Queue(s.qualify(`INSERT INTO @.shards (topic, number) SELECT t.name, g FROM @.topics t, generate_series(0, t.shards - 1) g WHERE t.name = $1
			ON CONFLICT DO NOTHING`), topic)
		b.Queue(s.qualify(`SELECT shards FROM @.topics WHERE name = $1`), topic).QueryRow(func(row pgx.Row) error { return row.Scan(&stands) })
	})
	return int(stands), err
}

// Claim implements [engine.Leases]. A deleted lease never reappears, so checking that a fence has no lease does not
// require a lock. Only the shard's row is locked.
func (s *Store) Claim(ctx context.Context, fence uint64, free []engine.ShardFence) (won []engine.Shard, err error) {
	var topics []string
	var numbers []int32
	var fences []int64
	for _, h := range free {
		topics, numbers, fences = append(topics, h.Shard.Topic), append(numbers, int32(h.Shard.Number)), append(fences, int64(h.Fence))
	}
	live := false
	err = s.write(ctx, func(b *pgx.Batch) {
		won = nil
		b.Queue(s.qualify(`SELECT EXISTS (SELECT 1 FROM @.leases WHERE fence = $1 AND expires > clock_timestamp())`), int64(fence)).
			QueryRow(func(row pgx.Row) error { return row.Scan(&live) })
		b.Queue(s.qualify(`WITH wanted AS (
			SELECT s.topic, s.number FROM @.shards s JOIN unnest($2::text[], $3::integer[], $4::bigint[]) AS u (topic, number, fence)
				ON s.topic = u.topic AND s.number = u.number AND s.fence = u.fence
			WHERE NOT EXISTS (SELECT 1 FROM @.leases l WHERE l.fence = s.fence)
				AND EXISTS (SELECT 1 FROM @.leases l WHERE l.fence = $1 AND l.expires > clock_timestamp())
			ORDER BY s.topic, s.number FOR UPDATE OF s)
		UPDATE @.shards s SET fence = $1 FROM wanted w WHERE s.topic = w.topic AND s.number = w.number RETURNING s.topic, s.number, s.fence`),
			int64(fence), topics, numbers, fences).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				h, err := scanHold(rows)
				if err != nil {
					return err
				}
				won = append(won, h.Shard)
			}
			return rows.Err()
		})
	})
	switch {
	case err != nil:
		return nil, err
	case !live:
		return won, fmt.Errorf("lease %d has expired: %w", fence, engine.ErrFenced)
	}
	return won, nil
}

// Release implements [engine.Leases].
func (s *Store) Release(ctx context.Context, h engine.ShardFence) error {
	released, err := s.execChange(ctx, `UPDATE @.shards SET fence = 0 WHERE topic = $1 AND number = $2 AND fence = $3`, h.Shard.Topic, int32(h.Shard.Number), int64(h.Fence))
	if err == nil && !released {
		return fmt.Errorf("%v is not held by %d: %w", h.Shard, h.Fence, engine.ErrFenced)
	}
	return err
}
