package memory

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var _ engine.Attempts = (*Store)(nil)

// attempts contains the attempts passed to SaveAttempts, grouped by update. It is guarded by the Store's lock.
type attempts struct {
	oldest, latest *attemptGroup
	all            int                        // number of attempts
	of             map[string][]*attemptGroup // by subscription, the oldest first
	grown          map[string]struct{}        // subscriptions with new attempts since the last trim
}

// An attemptGroup contains one update's attempts.
type attemptGroup struct {
	subscription string
	attempts     []operator.Attempt
	older, newer *attemptGroup
}

func (a *attempts) add(subscription string, made []operator.Attempt) {
	if len(made) == 0 {
		return
	}
	if a.of == nil {
		a.of, a.grown = map[string][]*attemptGroup{}, map[string]struct{}{}
	}
	m := &attemptGroup{subscription: subscription, attempts: slices.Clone(made), older: a.latest}
	if a.latest != nil {
		a.latest.newer = m
	} else {
		a.oldest = m
	}
	a.latest = m
	a.all += len(made)
	a.of[subscription] = append(a.of[subscription], m)
	a.grown[subscription] = struct{}{}
}

// dropOldest removes the subscription's oldest group of attempts.
func (a *attempts) dropOldest(subscription string) {
	of := a.of[subscription]
	m := of[0]
	if of[0] = nil; len(of) == 1 {
		delete(a.of, subscription)
	} else {
		a.of[subscription] = of[1:]
	}
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		a.oldest = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		a.latest = m.older
	}
	a.all -= len(m.attempts)
}

func (a *attempts) forget(subscription string) {
	for len(a.of[subscription]) > 0 {
		a.dropOldest(subscription)
	}
	delete(a.grown, subscription)
}

// trim implements TrimAttempts.
func (a *attempts) trim(b engine.AttemptBounds, now time.Time, limit int) (more bool) {
	for ; a.oldest != nil; limit-- {
		m := a.oldest
		last := m.attempts[len(m.attempts)-1].At
		if a.all <= b.Total && now.Sub(last) < b.MaxAge {
			break
		}
		if limit <= 0 {
			return true
		}
		a.dropOldest(m.subscription)
	}
	for subscription := range a.grown {
		for a.hasSurplus(subscription, b.PerSubscription) {
			if limit <= 0 {
				return true
			}
			a.dropOldest(subscription)
			limit--
		}
		if limit--; limit <= 0 && len(a.grown) > 1 {
			delete(a.grown, subscription)
			return true
		}
		delete(a.grown, subscription)
	}
	return false
}

// hasSurplus reports whether the subscription would still have at least bound attempts without its oldest group.
func (a *attempts) hasSurplus(subscription string, bound int) bool {
	of := a.of[subscription]
	kept := 0
	for i := len(of) - 1; i > 0; i-- {
		if kept += len(of[i].attempts); kept >= bound {
			return true
		}
	}
	return bound <= 0 && len(of) > 0
}

// Attempts implements [engine.Attempts].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) (found []operator.Attempt, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) {
		of := x.attempts.of[subscription]
		for i := len(of) - 1; i >= 0; i-- {
			for _, a := range slices.Backward(of[i].attempts) {
				if len(found) >= limit {
					return
				}
				found = append(found, a)
			}
		}
	})
	return found, err
}

// TrimAttempts implements [engine.Attempts].
func (s *Store) TrimAttempts(ctx context.Context, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	err = s.withSubscriptions(ctx, func(x *subscriptions) { more = x.attempts.trim(b, now, limit) })
	return more, err
}
