package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Owned gives the owner of a shard access to its subscriptions. Each write guards the hold and returns [ErrFenced] if it
// is not current (REP-7).
//
// An owner gets the current mark of [engine.Engine.Changes], claims the shard, reads the checkpoint, reads the
// subscriptions by [Owned.Each], and then obeys the changes since the mark. It misses no change in this order.
type Owned struct {
	l    *Ledger
	hold Hold
	turn turn // for commits, which depend on the revisions that the earlier one has returned

	mu         sync.Mutex
	known      map[string]known // by subscription ID
	written    map[string]int   // attempts written since older ones were deleted, by subscription ID
	checkpoint Checkpoint
	marked     uint64 // revision of the checkpoint
}

// A known is a status record that the owner may replace.
type known struct {
	revision   uint64
	generation uint64 // 0 if the record is damaged
}

// Own returns the subscriptions of a shard that a lease of this process has claimed.
func (l *Ledger) Own(h Hold) *Owned {
	return &Owned{l: l, hold: h, turn: newTurn(), known: map[string]known{}, written: map[string]int{}}
}

// Hold returns the hold of the shard.
func (o *Owned) Hold() Hold { return o.hold }

// A Checkpoint is the position up to which a log was offered to the subscriptions of a shard (REP-10).
type Checkpoint struct {
	Epoch    uint64         `json:"epoch"`
	Position store.Position `json:"position"`
}

// Bytes implements [store.Value].
func (c *Checkpoint) Bytes() []byte { return encode(c) }

func (o *Owned) markKey() string { return familyMark + "/" + shardSegments(o.hold.Shard) }

// prefix begins the keys of the shard's status records.
func (o *Owned) prefix() string { return familyProgress + "/" + shardSegments(o.hold.Shard) + "/" }

// Checkpoint reads the checkpoint of the shard. It is zero if none was stored or if it cannot be read: delivery then goes
// on at the base of each subscription.
func (o *Owned) Checkpoint(ctx context.Context) (Checkpoint, error) {
	found, err := o.l.e.Get(ctx, store.Latest, o.markKey())
	if err != nil {
		return Checkpoint{}, err
	}
	return o.setCheckpoint(found[0])
}

// setCheckpoint remembers the record of the checkpoint.
func (o *Owned) setCheckpoint(r store.Record) (Checkpoint, error) {
	c, err := decode[Checkpoint](r)
	if err != nil && !o.l.passOver(r.Key, err) {
		return Checkpoint{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.marked = r.Revision; c == nil {
		c = &Checkpoint{}
	}
	o.checkpoint = *c
	return *c, nil
}

// Each calls f with the subscriptions of the shard, some at a time. They include subscriptions that have ended or cannot be
// read. The owner stores the status of an unreadable one as Open at the checkpoint, so that the checkpoint may move on.
func (o *Owned) Each(ctx context.Context, f func(states []State) error) error {
	return o.l.pages(ctx, o.prefix(), func(page []store.Record) error {
		ids := make([]string, 0, len(page))
		for _, r := range page {
			if id, ok := unescape(strings.TrimPrefix(r.Key, o.prefix())); ok {
				ids = append(ids, id)
			}
		}
		states, err := o.States(ctx, ids...)
		if err != nil || len(states) == 0 {
			return err
		}
		return f(states)
	})
}

// States returns the existing subscriptions of the shard with the IDs.
func (o *Owned) States(ctx context.Context, ids ...string) ([]State, error) {
	var states []State
	for some := range slices.Chunk(ids, scanPage) {
		found, err := o.read(ctx, some)
		if err != nil {
			return nil, err
		}
		states = append(states, found...)
	}
	return states, nil
}

// read reads both records of up to scanPage subscriptions at one moment.
func (o *Owned) read(ctx context.Context, ids []string) ([]State, error) {
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, subKey(id), o.prefix()+escape(id))
	}
	found, err := o.l.e.Get(ctx, store.Latest, keys...)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	for i, id := range ids {
		o.learn(id, found[2*i+1])
	}
	o.mu.Unlock()
	states := make([]State, 0, len(ids))
	for i, id := range ids {
		s, err := o.l.desired(id, found[2*i])
		if err != nil {
			return nil, err
		}
		if found[2*i+1].Value == nil || s.Revision == 0 {
			continue // it does not exist, or not in this shard
		}
		o.l.setStatus(&s, found[2*i+1])
		states = append(states, s)
	}
	return states, nil
}

// learn remembers a status record, or forgets it if it does not exist. The caller holds o.mu.
func (o *Owned) learn(id string, r store.Record) {
	if r.Value == nil {
		delete(o.known, id)
		delete(o.written, id)
		return
	}
	k := known{revision: r.Revision}
	if status, err := decode[Status](r); err == nil {
		k.generation = status.Generation
	}
	o.known[id] = k
}

// End ends a subscription that is over and reports whether it has done that. It leaves a subscription that has changed
// since s was read; Changes reports the change, and the owner decides by the new state. With a reason the record remains,
// as [Subscription.Ended], until [Owned.Remove]; otherwise End deletes the subscription.
func (o *Owned) End(ctx context.Context, s State, reason *wire.ErrorObject) (ended bool, err error) {
	ended, err = o.l.finish(ctx, s.ID, reason, func(now *Subscription) bool { return now.Revision == s.Revision }, o.hold.Guard())
	if err != nil {
		return false, fmt.Errorf("ending subscription %s: %w", s.ID, o.fenced(err))
	}
	return ended, nil
}

// Remove deletes a subscription of a generation that has ended, after its endpoint was notified or cannot be.
func (o *Owned) Remove(ctx context.Context, id string, generation uint64) error {
	ended := func(now *Subscription) bool { return now.Generation == generation && now.Ended != nil }
	if _, err := o.l.finish(ctx, id, nil, ended, o.hold.Guard()); err != nil {
		return fmt.Errorf("removing subscription %s: %w", id, o.fenced(err))
	}
	return nil
}

func (o *Owned) fenced(err error) error { return o.hold.fenced(err) }

// fenced returns [ErrFenced] for a conflict with the hold, and other errors as they are.
func (h Hold) fenced(err error) error {
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && slices.Contains(conflict.Keys, h.Guard().Key) {
		return fmt.Errorf("%v: %w", h.Shard, ErrFenced)
	}
	return err
}
