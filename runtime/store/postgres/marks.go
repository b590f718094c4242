package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	return s.saveMark(ctx, engine.Shard{}, log, to, nil)
}

// saveMark advances the mark of a log in a shard. It never decreases the mark. For a process that does not use shards,
// h is nil.
func (s *Store) saveMark(ctx context.Context, of engine.Shard, log string, to store.Position, h *engine.ShardFence) error {
	return s.write(ctx, func(b *pgx.Batch) {
		s.queueFenceCheck(b, h)
		b.Queue(s.qualify(`INSERT INTO @.marks AS m (log, topic, shard, position) VALUES ($1, $2, $3, $4)
			ON CONFLICT (log, topic, shard) DO UPDATE SET position = greatest(m.position, excluded.position)`),
			log, of.Topic, int32(of.Number), int64(to))
	})
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	return s.mark(ctx, engine.Shard{}, log)
}

func (s *Store) mark(ctx context.Context, of engine.Shard, log string) (store.Position, error) {
	var position int64
	_, err := s.queryRow(ctx, `SELECT position FROM @.marks WHERE log = $1 AND topic = $2 AND shard = $3`, []any{log, of.Topic, int32(of.Number)}, &position)
	return store.Position(position), err
}
