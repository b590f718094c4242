package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Revocations are the orders to end subscriptions of a principal.
type Revocations struct {
	// ByTopic has the latest revocation for each event type; that for "" is of all event types.
	ByTopic map[string]Revocation `json:"byTopic"`
}

// Bytes implements [store.Value].
func (r *Revocations) Bytes() []byte { return encode(r) }

// A Revocation ends the subscriptions that were created until a time.
type Revocation struct {
	Until  time.Time        `json:"until"`
	Reason wire.ErrorObject `json:"reason"`
}

// revokes returns the reason with which the revocations end a subscription.
func (r *Revocations) revokes(s *Subscription) (reason *wire.ErrorObject, ok bool) {
	if r == nil {
		return nil, false
	}
	for _, topic := range [...]string{"", s.Shard.Topic} {
		if x, ok := r.ByTopic[topic]; ok && !s.CreatedAt.After(x.Until) {
			return &x.Reason, true
		}
	}
	return nil, false
}

// until returns the latest time of all revocations.
func (r *Revocations) until() (until time.Time) {
	for _, x := range r.ByTopic {
		if x.Until.After(until) {
			until = x.Until
		}
	}
	return until
}

// Revoke ends the principal's subscriptions to the event types, or to all if none is named, with a reason. It writes one
// record, whatever their number. Owners obey when Changes reports it and when they take over a shard; see [Over].
func (l *Ledger) Revoke(ctx context.Context, principal string, reason wire.ErrorObject, topics ...string) error {
	now, err := l.e.Clock(ctx)
	if err != nil {
		return err
	}
	key := revokedKey(principal)
	_, err = l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		old, err := decode[Revocations](r.of(key))
		if err != nil && !l.passOver(key, err) {
			return nil, err
		}
		next := &Revocations{ByTopic: map[string]Revocation{}}
		if len(topics) == 0 {
			next.ByTopic[""] = Revocation{now, reason}
		} else if old != nil {
			maps.Copy(next.ByTopic, old.ByTopic)
		}
		for _, topic := range topics {
			next.ByTopic[topic] = Revocation{now, reason}
		}
		return &store.Commit{Writes: []store.Write{r.write(key, next)}, Tell: []string{key}}, nil
	})
	if err != nil {
		return fmt.Errorf("revoking the subscriptions of a principal: %w", err)
	}
	return nil
}

// Revoked returns the revocations of principals that have any. It leaves out a record that cannot be read, so that it
// holds up no other principal; [Ledger.Revoke] replaces it.
func (l *Ledger) Revoked(ctx context.Context, principals ...string) (map[string]*Revocations, error) {
	principals = slices.Compact(slices.Sorted(slices.Values(principals)))
	keys := make([]string, len(principals))
	for i, p := range principals {
		keys[i] = revokedKey(p)
	}
	found, err := l.get(ctx, store.Latest, keys)
	if err != nil {
		return nil, err
	}
	revoked := map[string]*Revocations{}
	for i, r := range found {
		x, err := decode[Revocations](r)
		if err != nil && !l.passOver(r.Key, err) {
			return nil, err
		}
		if x != nil {
			revoked[principals[i]] = x
		}
	}
	return revoked, nil
}
