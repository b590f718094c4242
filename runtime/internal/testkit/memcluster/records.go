package memcluster

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// change is like do, but for a change of records. After check, it waits for the delay set by [Cluster.Slow].
func (s *Store) change(ctx context.Context, op string, check, f func(c *Cluster) error) error {
	return s.do(ctx, op, func(c *Cluster) error {
		if check != nil {
			if err := check(c); err != nil {
				return err
			}
		}
		time.Sleep(c.slow)
		return f(c)
	})
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	err = s.change(ctx, "PutSubscription", nil, func(c *Cluster) (err error) {
		revision, err = c.db.PutSubscription(ctx, sub)
		return err
	})
	return revision, err
}

// Admit implements [engine.Shared].
func (s *Store) Admit(ctx context.Context, sub store.Subscription, q engine.Quota) (revision uint64, err error) {
	err = s.change(ctx, "Admit", func(c *Cluster) error {
		if _, ok, err := c.db.Subscription(ctx, sub.ID); ok || err != nil || sub.Revision != 0 {
			return err
		}
		return checkQuota(q)(c.db.CountSubscriptions(ctx, sub.Principal))
	}, func(c *Cluster) (err error) {
		revision, err = c.db.PutSubscription(ctx, sub)
		return err
	})
	return revision, err
}

// checkQuota returns a function that returns an error for a record beyond the quota.
func checkQuota(q engine.Quota) func(own, all int, err error) error {
	return func(own, all int, err error) error {
		if err != nil {
			return err
		}
		return q.Full(own, all)
	}
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (sub store.Subscription, ok bool, err error) {
	err = s.do(ctx, "Subscription", func(c *Cluster) (err error) {
		sub, ok, err = c.db.Subscription(ctx, id)
		return err
	})
	return sub, ok, err
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.do(ctx, "DeleteSubscription", func(c *Cluster) error { return c.db.DeleteSubscription(ctx, id, generation) })
}

// Subscriptions implements [store.SubscriptionStore].
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return query(ctx, s, "Subscriptions", func(c *Cluster) ([]store.Subscription, error) {
		return c.db.Subscriptions(ctx, after, limit)
	})
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	err = s.do(ctx, "CountSubscriptions", func(c *Cluster) (err error) {
		own, all, err = c.db.CountSubscriptions(ctx, principal)
		return err
	})
	return own, all, err
}

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.change(ctx, "SaveProgress", nil, func(c *Cluster) error { return c.db.SaveProgress(ctx, updates) })
}

// SaveAttempts implements [engine.Attempts]. It fails as SaveProgress does.
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return s.change(ctx, "SaveProgress", nil, func(c *Cluster) error { return c.db.SaveAttempts(ctx, updates, made) })
}

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	return s.do(ctx, "SaveMark", func(c *Cluster) error { return c.db.SaveMark(ctx, log, to) })
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	return query(ctx, s, "Mark", func(c *Cluster) (store.Position, error) { return c.db.Mark(ctx, log) })
}

// Attempts implements [engine.Attempts].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) ([]operator.Attempt, error) {
	return query(ctx, s, "Attempts", func(c *Cluster) ([]operator.Attempt, error) { return c.db.Attempts(ctx, subscription, limit) })
}

// TrimAttempts implements [engine.Attempts].
func (s *Store) TrimAttempts(ctx context.Context, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	return query(ctx, s, "TrimAttempts", func(c *Cluster) (bool, error) { return c.db.TrimAttempts(ctx, b, now, limit) })
}

// Verification implements [store.SubscriptionStore].
func (s *Store) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	err = s.do(ctx, "Verification", func(c *Cluster) (err error) {
		v, ok, err = c.db.Verification(ctx, principal, url)
		return err
	})
	return v, ok, err
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.do(ctx, "PutVerification", func(c *Cluster) error { return c.db.PutVerification(ctx, v) })
}

// AdmitVerification implements [engine.Shared].
func (s *Store) AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error {
	return s.do(ctx, "AdmitVerification", func(c *Cluster) error {
		_, ok, err := c.db.Verification(ctx, v.Principal, v.URL)
		if err == nil && !ok {
			err = checkQuota(q)(c.db.CountVerifications(ctx, v.Principal))
		}
		if err != nil {
			return err
		}
		return c.db.PutVerification(ctx, v)
	})
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	return s.do(ctx, "DeleteVerification", func(c *Cluster) error { return c.db.DeleteVerification(ctx, principal, url) })
}

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	err = s.do(ctx, "CountVerifications", func(c *Cluster) (err error) {
		own, all, err = c.db.CountVerifications(ctx, principal)
		return err
	})
	return own, all, err
}

// SweepVerifications implements [store.SubscriptionStore].
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (int, error) {
	return query(ctx, s, "SweepVerifications", func(c *Cluster) (int, error) { return c.db.SweepVerifications(ctx, now, limit) })
}

// owned gives a shard's owner access to the shard's records.
type owned struct {
	s *Store
	h engine.ShardFence
}

// Owned implements [engine.Shared].
func (s *Store) Owned(h engine.ShardFence) engine.Owned { return owned{s, h} }

// checkFence checks the owner's fence before a write.
func (o owned) checkFence(c *Cluster) error { return c.checkFence(o.h) }

// has reports whether a record belongs to the shard.
func (o owned) has(sub *store.Subscription) bool {
	return sub.Event == o.h.Shard.Topic && sub.Shard == o.h.Shard.Number
}

// contains reports whether the shard has a record with the given ID.
func (o owned) contains(ctx context.Context, c *Cluster, id string) bool {
	sub, ok, err := c.db.Subscription(ctx, id)
	return err == nil && ok && o.has(&sub)
}

// PutSubscription implements [engine.Owned].
func (o owned) PutSubscription(ctx context.Context, sub store.Subscription) (revision uint64, err error) {
	err = o.s.change(ctx, "Owned.PutSubscription", func(c *Cluster) error {
		if !o.has(&sub) {
			return engine.ErrFenced
		}
		return c.checkFence(o.h)
	}, func(c *Cluster) (err error) {
		revision, err = c.db.PutSubscription(ctx, sub)
		return err
	})
	return revision, err
}

// DeleteSubscription implements [engine.Owned].
func (o owned) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.s.change(ctx, "Owned.DeleteSubscription", o.checkFence, func(c *Cluster) error {
		if !o.contains(ctx, c, id) {
			return nil
		}
		return c.db.DeleteSubscription(ctx, id, generation)
	})
}

// Subscriptions implements [engine.Owned].
func (o owned) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	return query(ctx, o.s, "Owned.Subscriptions", func(c *Cluster) (found []store.Subscription, err error) {
		_, all, err := c.db.CountSubscriptions(ctx, "")
		if err != nil {
			return nil, err
		}
		subs, err := c.db.Subscriptions(ctx, after, all)
		subs = slices.DeleteFunc(subs, func(sub store.Subscription) bool { return !o.has(&sub) })
		return subs[:min(len(subs), max(limit, 0))], err
	})
}

// SaveProgress implements [engine.Owned].
func (o owned) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.SaveAttempts(ctx, updates, make([][]operator.Attempt, len(updates)))
}

// SaveAttempts implements [engine.Owned]. It fails as SaveProgress does.
func (o owned) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return o.s.change(ctx, "Owned.SaveProgress", o.checkFence, func(c *Cluster) error {
		var known []store.Update
		var theirs [][]operator.Attempt
		for i, u := range updates {
			if o.contains(ctx, c, u.ID) {
				known, theirs = append(known, u), append(theirs, made[i])
			}
		}
		return c.db.SaveAttempts(ctx, known, theirs)
	})
}

// SaveMark implements [engine.Owned].
func (o owned) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.s.do(ctx, "Owned.SaveMark", func(c *Cluster) error {
		if err := c.checkFence(o.h); err != nil {
			return err
		}
		m := mark{log, o.h.Shard}
		c.marks[m] = max(c.marks[m], to)
		return nil
	})
}

// Mark implements [engine.Owned].
func (o owned) Mark(ctx context.Context, log string) (store.Position, error) {
	return query(ctx, o.s, "Owned.Mark", func(c *Cluster) (store.Position, error) { return c.marks[mark{log, o.h.Shard}], nil })
}

// States implements [engine.Shared].
func (s *Store) States(ctx context.Context, prefix, after string, limit int) ([]engine.State, error) {
	return query(ctx, s, "States", func(c *Cluster) (found []engine.State, err error) {
		for _, key := range slices.Sorted(maps.Keys(c.states)) {
			if strings.HasPrefix(key, prefix) && key > after && len(found) < limit {
				found = append(found, c.states[key])
			}
		}
		return found, nil
	})
}

// PutState implements [engine.Shared].
func (s *Store) PutState(ctx context.Context, x engine.State) (uint64, error) {
	return query(ctx, s, "PutState", func(c *Cluster) (uint64, error) {
		if c.states[x.Key].Revision != x.Revision {
			return 0, store.ErrConflict
		}
		c.changes++
		x.Revision, x.Value = c.changes, bytes.Clone(x.Value)
		c.states[x.Key] = x
		return x.Revision, nil
	})
}

// DeleteState implements [engine.Shared].
func (s *Store) DeleteState(ctx context.Context, key string, revision uint64) error {
	return s.do(ctx, "DeleteState", func(c *Cluster) error {
		if x, ok := c.states[key]; !ok || x.Revision != revision {
			return store.ErrConflict
		}
		delete(c.states, key)
		return nil
	})
}

// History implements [engine.Shared].
func (s *Store) History(ctx context.Context, event string) ([]engine.SchemaVersion, error) {
	return query(ctx, s, "History", func(c *Cluster) ([]engine.SchemaVersion, error) {
		return slices.Clone(c.history[event]), nil
	})
}

// AddSchema implements [engine.Shared].
func (s *Store) AddSchema(ctx context.Context, event string, v engine.SchemaVersion, known int) error {
	return s.do(ctx, "AddSchema", func(c *Cluster) error {
		if len(c.history[event]) != known {
			return store.ErrConflict
		}
		c.history[event] = append(c.history[event], v)
		return nil
	})
}
