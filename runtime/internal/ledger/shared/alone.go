package shared

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// update returns an update of the ledger with the attempts that belong to it.
func update(u *store.Update, made []operator.Attempt) ledger.Update {
	return ledger.Update{
		ID: u.ID, Status: ledger.Status{Generation: u.Generation, Progress: u.Progress, Health: u.Health}, Attempts: made,
	}
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.SaveAttempts(ctx, updates, make([][]operator.Attempt, len(updates)))
}

// SaveAttempts implements [domain.Attempts] for the only process of a store. Only an owner writes progress, so the process
// first claims the shards. The updates of each shard are one step.
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	byShard := map[domain.Shard][]ledger.Update{}
	for i := range updates {
		sub, ok, err := s.Ledger.Subscription(ctx, updates[i].ID)
		if err != nil {
			return err
		}
		if ok {
			byShard[sub.Shard] = append(byShard[sub.Shard], update(&updates[i], made[i]))
		}
	}
	for shard, updates := range byShard {
		h, err := s.claimAlone(ctx, shard)
		if err != nil {
			return err
		}
		if _, err := s.Own(h).SaveProgress(ctx, updates, nil); err != nil {
			return err
		}
	}
	return nil
}

// claimAlone returns the hold of a shard for the only process of a store.
func (s *Store) claimAlone(ctx context.Context, shard domain.Shard) (h ledger.Hold, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.holds[shard]; ok {
		return h, nil
	}
	if s.lease == nil {
		if s.lease, err = s.join(ctx, ledger.Member{Name: "alone", TTL: forever}); err != nil {
			return h, err
		}
	}
	won, err := s.lease.Claim(ctx, ledger.Hold{Shard: shard})
	if err != nil {
		return h, err
	}
	if len(won) == 0 {
		return h, fmt.Errorf("%v: %w", shard, domain.ErrFenced)
	}
	s.holds[shard] = won[0]
	return won[0], nil
}

// TrimAttempts implements [domain.Attempts]. It makes a complete pass in bounded steps, whatever the limit.
func (s *Store) TrimAttempts(ctx context.Context, b domain.AttemptBounds, now time.Time, _ int) (more bool, err error) {
	return false, s.Ledger.TrimAttempts(ctx, b, now)
}
