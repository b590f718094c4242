package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// check fences an owner's transaction: it fails if the hold is not current.
func (s *Store) check(ctx context.Context, tx pgx.Tx, h engine.ShardFence) error {
	b := &pgx.Batch{}
	s.held(b, h)
	return tx.SendBatch(ctx, b).Close()
}

// Owned implements [engine.Shared].
func (s *Store) Owned(h engine.ShardFence) engine.Owned { return owned{s, h} }

// owned holds the subscriptions of one shard, as seen by the owner that the hold names.
type owned struct {
	s *Store
	h engine.ShardFence
}

func (o owned) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return o.s.put(ctx, sub, engine.Quota{}, &o.h)
}

func (o owned) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.s.delete(ctx, id, generation, &o.h)
}

func (o owned) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return o.s.subscriptions(ctx, "AND event = $3 AND shard = $4", after, limit, o.h.Shard.Topic, int32(o.h.Shard.Number))
}

func (o owned) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.s.saveProgress(ctx, updates, nil, &o.h)
}

func (o owned) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return o.s.saveProgress(ctx, updates, made, &o.h)
}

func (o owned) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.s.saveMark(ctx, o.h.Shard, log, to, &o.h)
}

func (o owned) Mark(ctx context.Context, log string) (store.Position, error) {
	return o.s.mark(ctx, o.h.Shard, log)
}
