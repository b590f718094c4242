package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const fenceKey = "shared/fence"

// leaseID returns the ID of the lease with a fence, "" for 0.
func leaseID(fence uint64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatUint(fence, 10)
}

// fenceOf returns the fence of a lease, 0 for "".
func fenceOf(id string) uint64 {
	fence, _ := strconv.ParseUint(id, 10, 64) // every lease of the store is from join
	return fence
}

// Join implements [domain.Leases].
func (s *Store) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string) (domain.Lease, error) {
	l, err := s.join(ctx, ledger.Member{Name: name, TTL: ttl, Types: types})
	if err != nil {
		return domain.Lease{}, err
	}
	return domain.Lease{Fence: fenceOf(l.ID()), Now: l.Joined()}, nil
}

// join begins a lease with the next fence.
func (s *Store) join(ctx context.Context, m ledger.Member) (*ledger.Lease, error) {
	fence, err := s.setNumber(ctx, fenceKey, func(last uint64) uint64 { return last + 1 })
	if err != nil {
		return nil, err
	}
	m.ID = leaseID(fence)
	return s.Ledger.Join(ctx, m)
}

// running returns the lease with a fence, whichever process has joined with it, or [domain.ErrFenced] if it is over.
func (s *Store) running(ctx context.Context, fence uint64) (*ledger.Lease, error) {
	c, err := s.Ledger.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Members, func(m ledger.Member) bool { return m.ID == leaseID(fence) })
	if i < 0 {
		return nil, fmt.Errorf("the lease with fence %d is over: %w", fence, domain.ErrFenced)
	}
	return s.Lease(c.Members[i]), nil
}

// Renew implements [domain.Leases].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string) (domain.Lease, error) {
	l, err := s.running(ctx, fence)
	if err != nil {
		return domain.Lease{}, err
	}
	now, err := l.Renew(ctx, ttl, types)
	if err != nil {
		return domain.Lease{}, err
	}
	return domain.Lease{Fence: fence, Now: now}, nil
}

// Leave implements [domain.Leases].
func (s *Store) Leave(ctx context.Context, fence uint64) error {
	l, err := s.running(ctx, fence)
	if errors.Is(err, domain.ErrFenced) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.Leave(ctx)
}

// Cluster implements [domain.Leases].
func (s *Store) Cluster(ctx context.Context) (domain.Cluster, error) {
	found, err := s.Ledger.Cluster(ctx)
	if err != nil {
		return domain.Cluster{}, err
	}
	var c domain.Cluster
	for _, m := range found.Members {
		c.Replicas = append(c.Replicas, domain.Replica{Name: m.Name, Fence: fenceOf(m.ID), Types: m.Types})
	}
	slices.SortFunc(c.Replicas, func(a, b domain.Replica) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, h := range found.Shards {
		c.Shards = append(c.Shards, domain.Hold{Shard: h.Shard, Fence: fenceOf(h.Lease)})
	}
	return c, nil
}

// Claim implements [domain.Leases].
func (s *Store) Claim(ctx context.Context, fence uint64, free []domain.Hold) (won []domain.Shard, err error) {
	l, err := s.running(ctx, fence)
	if err != nil {
		return nil, err
	}
	holds := make([]ledger.Hold, len(free))
	for i, h := range free {
		holds[i] = ledger.Hold{Shard: h.Shard, Lease: leaseID(h.Fence)}
	}
	holds, err = l.Claim(ctx, holds...)
	for _, h := range holds {
		won = append(won, h.Shard)
	}
	return won, err
}

// Release implements [domain.Leases].
func (s *Store) Release(ctx context.Context, h domain.Hold) error {
	held, err := s.hold(ctx, h)
	if err != nil {
		return err
	}
	return s.Ledger.Release(ctx, held)
}

// hold returns the current hold of a shard if it is h, and otherwise [domain.ErrFenced].
func (s *Store) hold(ctx context.Context, h domain.Hold) (ledger.Hold, error) {
	c, err := s.Ledger.Cluster(ctx)
	if err != nil {
		return ledger.Hold{}, err
	}
	i := slices.IndexFunc(c.Shards, func(x ledger.Hold) bool { return x.Shard == h.Shard })
	if i < 0 || h.Fence == 0 || c.Shards[i].Lease != leaseID(h.Fence) {
		return ledger.Hold{}, fmt.Errorf("%v is not held with fence %d: %w", h.Shard, h.Fence, domain.ErrFenced)
	}
	return c.Shards[i], nil
}
