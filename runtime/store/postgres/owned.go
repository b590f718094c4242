package postgres

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Owned implements [engine.Shared].
func (s *Store) Owned(h engine.ShardFence) engine.Owned { return ownedShard{s, h} }

// ownedShard implements [engine.Owned] for the subscriptions of one shard.
type ownedShard struct {
	s *Store
	h engine.ShardFence
}

func (o ownedShard) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return o.s.put(ctx, sub, engine.Quota{}, &o.h)
}

func (o ownedShard) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.s.delete(ctx, id, generation, &o.h)
}

func (o ownedShard) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return o.s.listSubscriptions(ctx, "AND event = $3 AND shard = $4", after, limit, o.h.Shard.Topic, int32(o.h.Shard.Number))
}

func (o ownedShard) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.s.saveProgress(ctx, updates, nil, &o.h)
}

func (o ownedShard) SaveAttempts(ctx context.Context, updates []store.Update, tried [][]operator.Attempt) error {
	return o.s.saveProgress(ctx, updates, tried, &o.h)
}

func (o ownedShard) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.s.saveMark(ctx, o.h.Shard, log, to, &o.h)
}

func (o ownedShard) Mark(ctx context.Context, log string) (store.Position, error) {
	return o.s.mark(ctx, o.h.Shard, log)
}
