package memory

import (
	"context"
	"time"
)

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		all = len(x.verifications)
		for pair := range x.verifications {
			if pair[0] == principal {
				own++
			}
		}
	})
	return own, all, err
}

// SweepVerifications implements [store.SubscriptionStore].
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		used := make(map[[2]string]bool, len(x.records))
		for _, r := range x.records {
			used[[2]string{r.principal, r.url}] = true
		}
		for pair, v := range x.verifications {
			if removed >= limit {
				return
			}
			if v.until != 0 && instantOf(now) >= v.until && !used[pair] {
				delete(x.verifications, pair)
				removed++
			}
		}
	})
	return removed, err
}
