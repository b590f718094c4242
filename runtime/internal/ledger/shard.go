package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Hold says which lease holds a shard. A Hold that [Lease.Claim] has returned is the fencing token of the owner.
type Hold struct {
	Shard Shard
	// Lease is the ID of the lease, "" if the shard is free. A shard whose lease has ended is free as well.
	Lease string

	revision uint64
}

// Guard returns a guard for a commit of the owner: the commit is refused after the next claim (REP-7).
func (h Hold) Guard() store.Guard { return store.Guard{Key: shardKey(h.Shard), Revision: h.revision} }

func shardKey(s Shard) string { return shardPrefix + shardSegments(s) }

// A holder is the value of a shard's record.
type holder struct {
	Shard Shard  `json:"shard"`
	Lease string `json:"lease"`
}

// Bytes implements [store.Value].
func (h *holder) Bytes() []byte { return encode(h) }

// claimBatch is how many shards one commit claims. Their records, those of their leases and that of the claiming lease
// fit one Get.
const claimBatch = (store.MaxGet - 1) / 2

// Claim gives shards to the lease if their holders are still as given and have ended. It returns the holds that it has
// won, also next to an error. It returns [ErrFenced] if the claiming lease is over.
func (x *Lease) Claim(ctx context.Context, free ...Hold) (won []Hold, err error) {
	if err := x.turn.take(ctx); err != nil {
		return nil, err
	}
	defer x.turn.give()
	now, err := x.l.e.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if x.m.expired(now) && !x.l.e.Exclusive() {
		return nil, fmt.Errorf("lease %s has expired: %w", x.id, ErrFenced)
	}
	for first := true; first || len(free) > 0; first = false {
		some := free[:min(len(free), claimBatch)]
		free = free[len(some):]
		holds, err := x.claim(ctx, some)
		won = append(won, holds...)
		if err != nil {
			return won, fmt.Errorf("claiming shards: %w", err)
		}
	}
	return won, nil
}

// claim claims shards in one commit. It starts over if another process claims one of them at the same time.
func (x *Lease) claim(ctx context.Context, free []Hold) (won []Hold, err error) {
	own := leaseKey(x.id)
	keys := []string{own}
	for _, h := range free {
		keys = append(keys, shardKey(h.Shard))
		if h.Lease != "" {
			keys = append(keys, leaseKey(h.Lease))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	revisions, err := x.l.change(ctx, keys, func(r reading) (*store.Commit, error) {
		won = nil
		if r.of(own).Value == nil {
			return nil, fmt.Errorf("lease %s was ended: %w", x.id, ErrFenced)
		}
		x.m.revision = r.of(own).Revision
		c := &store.Commit{Guards: []store.Guard{{Key: own, Revision: x.m.revision}}}
		for _, h := range free {
			key := shardKey(h.Shard)
			is, err := decode[holder](r.of(key))
			if err != nil {
				if x.l.passOver(key, err) {
					continue
				}
				return nil, err
			}
			held := ""
			if is != nil {
				held = is.Lease
			}
			// A lease that has ended needs no guard, since no other one gets its ID.
			if held != h.Lease || held != "" && r.of(leaseKey(held)).Value != nil {
				continue
			}
			won = append(won, Hold{Shard: h.Shard, Lease: x.id})
			c.Writes = append(c.Writes, r.write(key, &holder{h.Shard, x.id}))
			c.Tell = append(c.Tell, key)
		}
		if won == nil {
			return nil, nil
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	for i := range won {
		won[i].revision = revisions[i]
	}
	return slices.DeleteFunc(won, func(h Hold) bool { return h.revision == 0 }), nil
}

// Release frees a shard. It returns [ErrFenced] if the hold is not current. A copy of the commit that arrives late does
// not free a later claim.
func (l *Ledger) Release(ctx context.Context, h Hold) error {
	if h.revision == 0 {
		return fmt.Errorf("%v is not held: %w", h.Shard, ErrFenced)
	}
	key := shardKey(h.Shard)
	_, err := l.commit(ctx, &store.Commit{Writes: []store.Write{{Key: key, On: h.revision}}, Tell: []string{key}})
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%v is not held by %s: %w", h.Shard, h.Lease, ErrFenced)
	}
	return err
}
