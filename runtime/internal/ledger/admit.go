package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Admit stores a new subscription with its progress, counts it, and returns it with its Revision. The progress is stored
// as Open, so a crash before anything else is stored loses nothing.
//
// Admit replaces a subscription with the same ID that has ended, or that has the Revision of s, which then counts no
// second time. It returns an error that matches [store.ErrConflict] if there is another one, and a [*QuotaError] if a
// quota is used up.
func (l *Ledger) Admit(ctx context.Context, s Subscription, p store.Progress, q Quota) (Subscription, error) {
	err := errors.Join(checkName("the event type", s.Shard.Topic), checkName("the subscription", s.ID), checkTexts(s.Principal, s.URL))
	if err != nil {
		return Subscription{}, err
	}
	s.Arguments, s.Secrets, s.Again = own(s.Arguments), own(s.Secrets), own(s.Again)
	p.Open, p.Settled = true, own(p.Settled)
	a := admission{l: l, s: s, expected: s.Revision, status: &Status{Generation: s.Generation, Progress: p}}
	err = l.reserve(ctx, countersOf(countSubscriptions, s.Principal, q), func(v *reservation) error {
		a.v = v
		keys, counted := a.s.keys(), v.keys()
		revisions, err := l.change(ctx, append(keys[:], counted[:]...), a.step)
		if revisions != nil {
			a.s.Revision = revisions[0]
		}
		return err
	})
	if err != nil {
		return Subscription{}, fmt.Errorf("storing subscription %s: %w", s.ID, err)
	}
	return a.s, nil
}

// own returns a copy of a slice whose original the caller may change. Appending to it copies it.
func own[S ~[]E, E any](s S) S { return slices.Clip(slices.Clone(s)) }

// An admission is a call of [Ledger.Admit].
type admission struct {
	l        *Ledger
	s        Subscription
	expected uint64 // the revision to replace
	status   *Status
	v        *reservation
}

func (a *admission) step(r reading) (*store.Commit, error) {
	keys := a.s.keys()
	old, err := decode[subscriptionRecord](r.of(keys[0]))
	if err != nil {
		return nil, err
	}
	revision, live := r.of(keys[0]).Revision, old != nil && old.Ended == nil
	switch {
	case old != nil && old.Generation == a.s.Generation: // an earlier try has stored it
		a.s.Counted, a.s.Revision = old.Counted, revision
		return nil, nil
	case a.expected != 0 && (old == nil || a.expected != revision), a.expected == 0 && live:
		return nil, store.ErrConflict
	case old != nil && old.keys() != keys:
		return nil, fmt.Errorf("%w: the ID belongs to another shard, principal or URL", store.ErrConflict)
	}
	c := &store.Commit{Tell: []string{keys[1]}, Writes: make([]store.Write, 2, 5)}
	if live {
		a.s.Counted = old.Counted
	} else {
		a.s.Counted = a.v.at
		if c.Writes, err = a.v.count(a.l, c.Writes, r); err != nil {
			return nil, err
		}
	}
	if r.of(keys[2]).Value == nil {
		c.Writes = append(c.Writes, r.write(keys[2], used))
	}
	record, err := a.l.seal(a.s)
	if err != nil {
		return nil, err
	}
	c.Writes[0], c.Writes[1] = r.write(keys[0], record), r.write(keys[1], a.status)
	return c, nil
}

// Change calls f to change a subscription. If f returns true, Change stores the result and tells the owner of the shard.
// It returns the subscription as it is stored, and false if it does not exist or has ended. f may not change the
// Generation or the fields that the ID is derived from. It can be called several times, even after its change was stored,
// so it must recognize its own change.
func (l *Ledger) Change(ctx context.Context, id string, f func(s *Subscription) bool) (s Subscription, ok bool, err error) {
	key := subKey(id)
	revisions, err := l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		old, err := l.open(r.of(key))
		if ok = err == nil && old.Revision != 0 && old.Ended == nil; !ok {
			return nil, err
		}
		s = old
		s.Secrets, s.Again = own(s.Secrets), own(s.Again)
		if !f(&s) {
			s = old
			return nil, nil
		}
		if s.keys() != old.keys() || s.Generation != old.Generation || s.Counted != old.Counted || s.Ended != nil {
			return nil, errors.New("ledger: a change may not concern the identity of a subscription")
		}
		record, err := l.seal(s)
		if err != nil {
			return nil, err
		}
		return &store.Commit{Writes: []store.Write{r.write(key, record)}, Tell: []string{progressKey(s.Shard, s.ID)}}, nil
	})
	if err != nil {
		return Subscription{}, false, fmt.Errorf("changing subscription %s: %w", id, err)
	}
	if revisions != nil {
		s.Revision = revisions[0]
	}
	if !ok {
		return Subscription{}, false, nil
	}
	return s, true, nil
}

// Remove deletes a subscription if it has the generation. Its endpoint is not notified.
func (l *Ledger) Remove(ctx context.Context, id string, generation uint64) error {
	_, err := l.finish(ctx, id, nil, func(s *Subscription) bool { return s.Generation == generation })
	if err != nil {
		return fmt.Errorf("removing subscription %s: %w", id, err)
	}
	return nil
}

// End ends a subscription with an error, if it has the generation and has not ended. Its owner sends the error to the
// endpoint and then removes the subscription. End reports whether it has ended the subscription.
func (l *Ledger) End(ctx context.Context, id string, generation uint64, reason wire.ErrorObject) (ended bool, err error) {
	ended, err = l.finish(ctx, id, &reason, func(s *Subscription) bool { return s.Generation == generation })
	if err != nil {
		return false, fmt.Errorf("ending subscription %s: %w", id, err)
	}
	return ended, nil
}

// finish ends a subscription with a reason, or deletes it without one, if judge agrees, and reports whether it has done
// so. judge gets the very subscription that the commit replaces, without its secrets, so a concurrent refresh comes either
// before or after. guards are those of an owner. A subscription that ends no longer counts against its quotas.
func (l *Ledger) finish(ctx context.Context, id string, reason *wire.ErrorObject, judge func(s *Subscription) bool, guards ...store.Guard) (bool, error) {
	key := subKey(id)
	revisions, err := l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		record, err := decode[subscriptionRecord](r.of(key))
		if err != nil || record == nil || reason != nil && record.Ended != nil {
			return nil, err
		}
		s := record.Subscription
		if s.Revision = r.of(key).Revision; !judge(&s) {
			return nil, nil
		}
		keys, counters := s.keys(), countersOf(countSubscriptions, s.Principal, Quota{})
		counted := []string{counters[0].stripe(s.Counted[0]), counters[1].stripe(s.Counted[1])}
		if missing := r.missing(append(counted, keys[1:]...)...); missing != nil {
			return nil, &needError{missing}
		}
		c := &store.Commit{Guards: guards, Tell: []string{keys[1]}, Writes: make([]store.Write, 0, 5)}
		if reason != nil {
			ended := *record
			ended.Ended = reason
			c.Writes = append(c.Writes, r.write(key, &ended))
		} else {
			for _, k := range keys {
				if r.of(k).Value != nil {
					c.Writes = append(c.Writes, r.write(k, nil))
				}
			}
		}
		for i := range counters {
			if record.Ended == nil {
				c.Writes = l.subtract(&counters[i], c.Writes, r, s.Counted[i])
			}
		}
		return c, nil
	})
	return revisions != nil, err
}
