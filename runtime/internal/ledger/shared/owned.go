package shared

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An owned is a shard as its owner reads and writes it.
type owned struct {
	s *Store
	h domain.Hold
}

// Owned implements [domain.Shared].
func (s *Store) Owned(h domain.Hold) domain.Owned { return owned{s, h} }

// write calls f with a context whose commits guard the hold. f may find nothing to commit, so the hold is also read.
func (o owned) write(ctx context.Context, f func(ctx context.Context, h ledger.Hold) error) error {
	h, err := o.s.hold(ctx, o.h)
	if err != nil {
		return err
	}
	return fenced(h, f(guarded(ctx, h), h))
}

// PutSubscription implements [domain.Owned].
func (o owned) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	if shardOf(&sub) != o.h.Shard {
		return 0, fmt.Errorf("subscription %s is of another shard than %v: %w", sub.ID, o.h.Shard, domain.ErrFenced)
	}
	err = o.write(ctx, func(ctx context.Context, _ ledger.Hold) (err error) {
		revision, err = o.s.Admit(ctx, sub, domain.Quota{})
		return err
	})
	return revision, err
}

// DeleteSubscription implements [domain.Owned].
func (o owned) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.write(ctx, func(ctx context.Context, _ ledger.Hold) error {
		sub, ok, err := o.s.Ledger.Subscription(ctx, id)
		if err != nil || !ok || sub.Shard != o.h.Shard {
			return err
		}
		return o.s.Remove(ctx, id, generation)
	})
}

var errEnough = errors.New("shared: enough was read")

// Subscriptions implements [domain.Owned].
func (o owned) Subscriptions(ctx context.Context, after string, limit int) (subs []store.Subscription, err error) {
	err = o.s.Own(ledger.Hold{Shard: o.h.Shard}).Each(ctx, func(states []ledger.State) error {
		for i := range states {
			if len(subs) >= limit {
				return errEnough
			}
			if states[i].ID > after && states[i].Unreadable == "" {
				subs = append(subs, stored(&states[i]))
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return subs, err
}

// SaveProgress implements [domain.Owned].
func (o owned) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.SaveAttempts(ctx, updates, make([][]operator.Attempt, len(updates)))
}

// SaveAttempts implements [domain.Owned].
func (o owned) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	all := make([]ledger.Update, len(updates))
	for i := range updates {
		all[i] = update(&updates[i], made[i])
	}
	return o.write(ctx, func(ctx context.Context, h ledger.Hold) error {
		_, err := o.s.Own(h).SaveProgress(ctx, all, nil)
		return err
	})
}

// markKey returns the key of the mark of a log that is not the shard's topic.
func (o owned) markKey(log string) string {
	return fmt.Sprintf("%s%s/%s/%d", markPrefix, name(log), name(o.h.Shard.Topic), o.h.Shard.Number)
}

// SaveMark implements [domain.Owned]. Marks of today have no epoch.
func (o owned) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.write(ctx, func(ctx context.Context, h ledger.Hold) error {
		if log != o.h.Shard.Topic {
			return o.s.saveMark(ctx, o.markKey(log), to)
		}
		_, err := o.s.Own(h).SaveProgress(ctx, nil, &ledger.Checkpoint{Position: to})
		return err
	})
}

// Mark implements [domain.Owned].
func (o owned) Mark(ctx context.Context, log string) (store.Position, error) {
	if log != o.h.Shard.Topic {
		return o.s.mark(ctx, o.markKey(log))
	}
	c, err := o.s.Own(ledger.Hold{Shard: o.h.Shard}).Checkpoint(ctx)
	return c.Position, err
}
