package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Subscription returns a subscription with its secrets, and whether there is one. It may have ended.
func (l *Ledger) Subscription(ctx context.Context, id string) (s Subscription, ok bool, err error) {
	found, err := l.e.Get(ctx, store.Latest, subKey(id))
	if err != nil {
		return Subscription{}, false, err
	}
	if s, err = l.open(found[0]); err != nil || s.Revision == 0 {
		return Subscription{}, false, err
	}
	return s, true, nil
}

// State returns a subscription with its status, and whether there is one. It may have ended.
func (l *Ledger) State(ctx context.Context, id string) (s State, ok bool, err error) {
	states, err := l.states(ctx, []string{id})
	if err != nil || len(states) == 0 {
		return State{}, false, err
	}
	return states[0], true, nil
}

// Count returns how many subscriptions that have not ended the principal has, and how many there are.
func (l *Ledger) Count(ctx context.Context, principal string) (own, all int, err error) {
	return l.total(ctx, countSubscriptions, principal)
}

// A Selection selects subscriptions by principal, or by principal and URL. The zero value selects all.
type Selection struct {
	Principal, URL string
}

// prefix returns the common prefix of the keys to scan.
func (s Selection) prefix() string {
	switch {
	case s.Principal == "":
		return familySub + "/"
	case s.URL == "":
		return join(familyUse, hash(s.Principal)) + "/"
	}
	return join(familyUse, hash(s.Principal), hash(s.URL)) + "/"
}

// List returns up to limit of the selected subscriptions after a place in their order, "" for the start, and the place at
// which the next page begins, "" at the end. The place in a list of all subscriptions is an ID, and that list is in order
// of the IDs. List includes subscriptions that have ended or cannot be read. It returns no secrets.
func (l *Ledger) List(ctx context.Context, which Selection, after string, limit int) (page []State, next string, err error) {
	prefix := which.prefix()
	at := ""
	if after != "" {
		if at = prefix + after; which.Principal == "" {
			at = subKey(after)
		}
	}
	for len(page) < limit {
		found, err := l.e.Scan(ctx, prefix, at, min(limit-len(page), scanPage))
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			return page, "", nil
		}
		ids := make([]string, 0, len(found))
		for _, r := range found {
			if id, ok := unescape(lastSegment(r.Key)); ok {
				ids = append(ids, id)
			}
		}
		states, err := l.states(ctx, ids)
		if err != nil {
			return nil, "", err
		}
		for i := range states {
			states[i].Secrets = nil
		}
		page, at = append(page, states...), found[len(found)-1].Key
	}
	if next = strings.TrimPrefix(at, prefix); which.Principal == "" {
		next, _ = unescape(next)
	}
	return page, next, nil
}

// states returns the subscriptions with the IDs that exist, with their status.
func (l *Ledger) states(ctx context.Context, ids []string) ([]State, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = subKey(id)
	}
	found, err := l.get(ctx, store.Latest, keys)
	if err != nil {
		return nil, err
	}
	states := make([]State, 0, len(ids))
	keys = keys[:0]
	for i, r := range found {
		s, err := l.desired(ids[i], r)
		if err != nil {
			return nil, err
		}
		if s.Revision != 0 {
			states, keys = append(states, s), append(keys, progressKey(s.Shard, s.ID))
		}
	}
	found, err = l.get(ctx, store.Latest, keys)
	if err != nil {
		return nil, err
	}
	for i, r := range found {
		if err := l.complete(ctx, &states[i], r); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(states, func(s State) bool { return s.Revision == 0 }), nil
}

// desired returns a state without the status, or the zero State if the record does not exist.
func (l *Ledger) desired(id string, r store.Record) (s State, err error) {
	s.Subscription, err = l.open(r)
	s.ID, s.Revision = id, r.Revision
	switch {
	case r.Value == nil:
		return State{}, nil
	case err == nil:
		return s, nil
	}
	if s.Unreadable = unreadable(err); s.Unreadable == "" {
		return State{}, err
	}
	l.passOver(r.Key, err)
	return s, nil
}

// complete sets the status of a subscription by its record. If that is of another generation, the subscription has changed
// since it was read: complete reads both records at one moment. It clears a subscription that does not exist any more.
func (l *Ledger) complete(ctx context.Context, s *State, r store.Record) error {
	if status, err := decode[Status](r); err == nil && (status == nil || status.Generation != s.Generation) {
		found, err := l.e.Get(ctx, store.Latest, subKey(s.ID), r.Key)
		if err != nil {
			return err
		}
		if *s, err = l.desired(s.ID, found[0]); err != nil || s.Revision == 0 {
			return err
		}
		r = found[1]
	}
	l.setStatus(s, r)
	return nil
}

// setStatus sets the status of a subscription, or why it cannot be read.
func (l *Ledger) setStatus(s *State, r store.Record) {
	status, err := decode[Status](r)
	if status != nil {
		s.Status = *status
		return
	}
	if err == nil {
		err = fmt.Errorf("%w: it does not exist", ErrDamaged)
	}
	l.passOver(r.Key, err)
	s.Unreadable = cmp.Or(s.Unreadable, unreadable(err))
}
