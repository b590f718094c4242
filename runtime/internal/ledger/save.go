package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Update is the new status of a subscription, with the attempts that were made since the last one, the first one
// first.
type Update struct {
	ID       string
	Status   Status
	Attempts []operator.Attempt
}

// saveBatch bounds the writes of a commit, next to the guard of the hold and the checkpoint.
const saveBatch = store.MaxCommit - 2

// SaveProgress stores updates and, if to is not nil, the checkpoint. It can need several commits. Each commit stores its
// updates completely, with their attempts, and the last one has the checkpoint, so no crash moves the checkpoint past an
// entry whose update was not stored. A checkpoint that is before the stored one in its epoch does not replace it. SaveProgress
// returns the IDs of subscriptions that do not exist in this generation, whose updates it passes over.
func (o *Owned) SaveProgress(ctx context.Context, updates []Update, to *Checkpoint) (gone []string, err error) {
	if err := o.turn.take(ctx); err != nil {
		return nil, err
	}
	defer o.turn.give()
	updates = merge(updates)
	for first := true; first || len(updates) > 0; first = false {
		n, writes := 0, 0
		for ; n < len(updates) && writes < saveBatch-1; n++ {
			if writes++; len(updates[n].Attempts) > 0 {
				writes++
			}
		}
		var mark *Checkpoint
		if n == len(updates) {
			mark = to
		}
		missing, err := o.save(ctx, updates[:n], mark)
		gone, updates = append(gone, missing...), updates[n:]
		if err != nil {
			return gone, fmt.Errorf("storing the progress of %v: %w", o.hold.Shard, o.fenced(err))
		}
	}
	return gone, nil
}

// merge makes one update of several for one subscription: the last status, and all attempts.
func merge(updates []Update) []Update {
	at := make(map[string]int, len(updates))
	merged := make([]Update, 0, len(updates))
	for _, u := range updates {
		i, ok := at[u.ID]
		if !ok {
			at[u.ID] = len(merged)
			merged = append(merged, u)
			continue
		}
		u.Attempts = slices.Concat(merged[i].Attempts, u.Attempts)
		merged[i] = u
	}
	return merged
}

// save stores updates and the checkpoint in one commit.
func (o *Owned) save(ctx context.Context, updates []Update, to *Checkpoint) (gone []string, err error) {
	if err := o.know(ctx, updates); err != nil {
		return nil, err
	}
	for {
		b := o.batch(updates, to)
		if len(b.commit.Writes) == 0 {
			return b.gone, nil
		}
		revisions, err := o.l.commit(ctx, &b.commit)
		var conflict *store.ConflictError
		if errors.As(err, &conflict) && !slices.Contains(conflict.Keys, o.hold.Guard().Key) {
			// Another process has removed a subscription, or an earlier commit was applied whose outcome was not known.
			if err := o.refresh(ctx, updates); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		o.saved(&b, revisions, to)
		for _, u := range b.saved {
			if err := o.trim(ctx, u.ID); err != nil {
				o.l.log.Warn("mcp events: deleting old attempts failed", "subscription", u.ID, "error", err)
				break // the updates are stored
			}
		}
		return b.gone, nil
	}
}

// A batch is one commit of SaveProgress.
type batch struct {
	commit store.Commit
	saved  []Update // whose writes the commit begins with
	gone   []string
	marks  bool // the last write is the checkpoint
}

func (o *Owned) batch(updates []Update, to *Checkpoint) batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := batch{commit: store.Commit{Guards: []store.Guard{o.hold.Guard()}}}
	for _, u := range updates {
		k, ok := o.known[u.ID]
		if !ok || k.generation != 0 && k.generation != u.Status.Generation {
			b.gone = append(b.gone, u.ID)
			continue
		}
		status := u.Status
		status.Progress.Settled = own(status.Progress.Settled)
		b.saved = append(b.saved, u)
		b.commit.Writes = append(b.commit.Writes, store.Write{Key: o.prefix() + escape(u.ID), On: k.revision, Value: &status})
	}
	for _, u := range b.saved {
		if len(u.Attempts) > 0 && o.l.bounds.PerSubscription > 0 {
			b.commit.Writes = append(b.commit.Writes, o.l.writeAttempts(u.ID, u.Attempts))
		}
	}
	if to != nil && (to.Epoch != o.checkpoint.Epoch || to.Position > o.checkpoint.Position) {
		c := *to
		b.marks = true
		b.commit.Writes = append(b.commit.Writes, store.Write{Key: o.markKey(), On: o.marked, Value: &c})
	}
	return b
}

// saved remembers the revisions of a batch that was applied.
func (o *Owned) saved(b *batch, revisions []uint64, to *Checkpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, u := range b.saved {
		if k, ok := o.known[u.ID]; !ok || k.revision != b.commit.Writes[i].On {
			continue // it was read again meanwhile
		}
		o.known[u.ID] = known{revisions[i], u.Status.Generation}
		if o.l.bounds.PerSubscription > 0 {
			o.written[u.ID] += len(u.Attempts)
			o.l.attempts.grew(len(u.Attempts))
		}
	}
	if b.marks {
		o.marked, o.checkpoint = revisions[len(revisions)-1], *to
	}
}

// know reads the revisions of subscriptions that the owner has not read so far, such as a new one.
func (o *Owned) know(ctx context.Context, updates []Update) error {
	var unknown []Update
	o.mu.Lock()
	for _, u := range updates {
		if _, ok := o.known[u.ID]; !ok {
			unknown = append(unknown, u)
		}
	}
	o.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	return o.refresh(ctx, unknown)
}

// refresh reads the revisions of subscriptions and of the checkpoint.
func (o *Owned) refresh(ctx context.Context, updates []Update) error {
	keys := []string{o.markKey()}
	for _, u := range updates {
		keys = append(keys, o.prefix()+escape(u.ID))
	}
	found, err := o.l.get(ctx, store.Latest, keys)
	if err != nil {
		return err
	}
	if _, err := o.setCheckpoint(found[0]); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, u := range updates {
		o.learn(u.ID, found[i+1])
	}
	return nil
}
