package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// listStep is the maximum number of records that a list examines before it releases the lock.
const listStep = 1000

// ListSubscriptions implements [engine.Lister]. The results share memory with the records, which never changes.
func (s *Store) ListSubscriptions(ctx context.Context, after string, limit int, failing bool) (listed []engine.Listed, err error) {
	var ids []string
	err = s.withSubscriptions(ctx, func(x *subscriptions) { ids = x.idsAfter(after) })
	for len(ids) > 0 && len(listed) < limit && err == nil {
		step := ids[:min(len(ids), listStep)]
		ids = ids[len(step):]
		err = s.withSubscriptions(ctx, func(x *subscriptions) {
			for _, id := range step {
				if r := x.records[id]; r != nil && len(listed) < limit && (!failing || r.isFailing()) {
					listed = append(listed, engine.Listed{Subscription: r.listed(id)})
				}
			}
		})
	}
	return listed, err
}

// ListSubscription implements [engine.Lister].
func (s *Store) ListSubscription(ctx context.Context, id string) (engine.Listed, bool, error) {
	sub, ok, err := s.Subscription(ctx, id)
	sub.Secrets = nil
	return engine.Listed{Subscription: sub}, ok, err
}

// idsAfter returns the ids of the records greater than after, in order. The caller must not change them.
func (x *subscriptions) idsAfter(after string) []string {
	if x.ids == nil {
		x.ids = slices.Sorted(maps.Keys(x.records))
	}
	i, found := slices.BinarySearch(x.ids, after)
	if found {
		i++
	}
	return x.ids[i:]
}
