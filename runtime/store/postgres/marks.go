package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Dispatched implements [store.SubscriptionStore].
func (s *Store) Dispatched(ctx context.Context, log string, to store.Position, concerned []store.Concern) error {
	return s.dispatched(ctx, log, to, concerned, nil)
}

func (s *Store) dispatched(ctx context.Context, log string, to store.Position, concerned []store.Concern, h *engine.Hold) error {
	type key struct {
		id         string
		generation uint64
	}
	firsts := make(map[key]store.Position, len(concerned))
	for _, c := range concerned {
		k := key{c.ID, c.Generation}
		if old, ok := firsts[k]; !ok || c.First < old {
			firsts[k] = c.First
		}
	}
	var ids []string
	var generations, first []int64
	for k, p := range firsts {
		ids, generations, first = append(ids, k.id), append(generations, int64(k.generation)), append(first, int64(p))
	}
	mark, topic, number := engine.Shard{}, any(nil), any(nil)
	if h != nil {
		mark, topic, number = h.Shard, h.Shard.Topic, int32(h.Shard.Number)
	}
	return s.write(ctx, func(b *pgx.Batch) {
		if h != nil {
			s.held(b, *h)
		}
		b.Queue(s.in(`INSERT INTO @.marks AS m (log, topic, shard, position) VALUES ($1, $2, $3, $4)
			ON CONFLICT (log, topic, shard) DO UPDATE SET position = greatest(m.position, excluded.position)`),
			log, mark.Topic, int32(mark.Number), int64(to))
		if len(ids) == 0 {
			return
		}
		b.Queue(s.in(`SELECT 1 FROM @.subscriptions WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE`), ids)
		// A concern of an earlier generation gives way whatever its position.
		b.Queue(s.in(`INSERT INTO @.concerns AS c (subscription, log, generation, first)
			SELECT s.id, $1, s.generation, u.first FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS u (id, generation, first)
				JOIN @.subscriptions s ON s.id = u.id AND s.generation = u.generation
				WHERE $5::text IS NULL OR s.event = $5 AND s.shard = $6::integer
			ON CONFLICT (subscription, log) DO UPDATE SET generation = excluded.generation,
				first = CASE WHEN c.generation = excluded.generation THEN least(c.first, excluded.first) ELSE excluded.first END`),
			log, ids, generations, first, topic, number)
	})
}

// Resume implements [store.SubscriptionStore].
func (s *Store) Resume(ctx context.Context, log string) (to store.Position, concerned []store.Concern, err error) {
	return s.resume(ctx, log, nil)
}

func (s *Store) resume(ctx context.Context, log string, h *engine.Hold) (to store.Position, concerned []store.Concern, err error) {
	mark, topic, number := engine.Shard{}, any(nil), any(nil)
	if h != nil {
		mark, topic, number = h.Shard, h.Shard.Topic, int32(h.Shard.Number)
	}
	// The mark first: a concern that comes with a later one is then there too.
	err = s.query(ctx, func(r pgx.CollectableRow) error {
		var position int64
		err := r.Scan(&position)
		to = store.Position(position)
		return err
	}, `SELECT position FROM @.marks WHERE log = $1 AND topic = $2 AND shard = $3`, log, mark.Topic, int32(mark.Number))
	if err != nil {
		return 0, nil, err
	}
	concerned, err = collect(ctx, s, func(r pgx.CollectableRow) (c store.Concern, err error) {
		var generation, first int64
		err = r.Scan(&c.ID, &generation, &first)
		c.Generation, c.First = uint64(generation), store.Position(first)
		return c, err
	}, `SELECT c.subscription, c.generation, c.first FROM @.concerns c WHERE c.log = $1 AND ($2::text IS NULL OR EXISTS (
		SELECT 1 FROM @.subscriptions s WHERE s.id = c.subscription AND s.event = $2 AND s.shard = $3::integer)) ORDER BY c.subscription`,
		log, topic, number)
	if err != nil {
		return 0, nil, err
	}
	return to, concerned, nil
}
