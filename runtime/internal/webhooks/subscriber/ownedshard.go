package subscriber

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func (w *Subscriptions) newOwnedShard(t Ownership, et eventtype.Type) *ownedShard {
	p := &ownedShard{w: w, ownership: t, et: et, owned: w.store.Owned(t.ShardFence()), live: map[*Live]struct{}{},
		touched: map[string]bool{}, left: map[string]string{}}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: &trimmingStore{p.owned, w}, Fenced: t.Fenced,
		Undivided: w.cluster.Shards == 1, May: func() bool { return w.host.Current() && t.Valid() }})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		p.shard.Drop()
		return nil
	}
	w.ownedShards[t.ShardFence().Shard] = p
	return p
}

// isClosing reports whether p is the given shard and has been closed.
func (p *ownedShard) isClosing(of engine.Shard) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.closed && p.ownership.ShardFence().Shard == of
}

// closeShard prevents the start of further subscriptions in the shard.
func (p *ownedShard) closeShard() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.closed = true
}

// removeShard removes the shard and its live subscriptions from this process. They continue in another process.
func (p *ownedShard) removeShard() {
	w := p.w
	w.mu.Lock()
	p.closed = true
	delete(w.ownedShards, p.ownership.ShardFence().Shard)
	live := slices.Collect(maps.Keys(p.live))
	log := p.log
	w.mu.Unlock()
	if log != nil {
		w.unfollow(p.et, log)
	}
	for _, h := range live {
		w.endLive(w.ctx, h, endMoved)
	}
}

// checkFenced reports whether err was returned by a fenced write. If so, it ends the ownership.
func (p *ownedShard) checkFenced(err error) bool {
	if errors.Is(err, engine.ErrFenced) {
		p.ownership.Fenced()
		return true
	}
	return false
}

// deleteLapsed deletes the record of an expired subscription. It first writes r by compare-and-swap. If another process
// has changed the record since r was read, deleteLapsed queues the record for another read and returns false.
func (p *ownedShard) deleteLapsed(ctx context.Context, r *store.Subscription) (deleted bool, err error) {
	_, err = p.owned.PutSubscription(ctx, *r)
	if errors.Is(err, store.ErrConflict) {
		p.w.Changed(r.ID, shardOfRecord(r))
		return false, nil
	}
	if err == nil {
		err = p.owned.DeleteSubscription(ctx, r.ID, r.Generation)
	}
	return err == nil, p.fencedToClosed(err)
}

// compareEvery is the interval at which an owner compares its live subscriptions with the records. The comparison is
// necessary because a process can crash after it changes a record and before it notifies the owner.
const compareEvery = 2 * time.Minute

// queueDifferences queues the records that differ from the live subscriptions for reconciliation.
func (p *ownedShard) queueDifferences(ctx context.Context) error {
	w, of := p.w, p.ownership.ShardFence().Shard
	w.mu.Lock()
	live := maps.Clone(p.live)
	restored := p.touched == nil
	w.mu.Unlock()
	if !restored {
		return nil
	}
	for after := ""; ; {
		page, err := p.owned.Subscriptions(ctx, after, recordsPerPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		w.mu.Lock()
		var changed []string
		for i := range page {
			r := &page[i]
			after = r.ID
			h := w.byID[r.ID]
			delete(live, h)
			left, aside := p.left[r.ID]
			switch {
			case h == nil && aside && left == r.Schema:
			case h == nil, h.ownedShard != p, h.Handle.Generation() != r.Generation, h.revision != r.Revision:
				changed = append(changed, r.ID)
			}
		}
		w.mu.Unlock()
		for _, id := range changed {
			w.Changed(id, of)
		}
	}
	for h := range live {
		w.Changed(h.ID(), of)
	}
	return nil
}

// A fanout notifies the logs of this process's shards about appends.
type fanout struct {
	logs atomic.Pointer[[]*delivery.Log]
}

// Advanced implements [topic.Advancing].
func (f *fanout) Advanced() {
	if all := f.logs.Load(); all != nil {
		for _, l := range *all {
			l.Advanced()
		}
	}
}

// follow registers l for notifications about appends to the type's log.
func (w *Subscriptions) follow(et eventtype.Type, l *delivery.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fans[et]
	if f == nil {
		f = &fanout{}
		w.fans[et] = f
		et.Topic().Advancing(f)
	}
	var all []*delivery.Log
	if old := f.logs.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, l)
	f.logs.Store(&all)
}

func (w *Subscriptions) unfollow(et eventtype.Type, l *delivery.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fans[et]
	if f == nil || f.logs.Load() == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*f.logs.Load()), func(o *delivery.Log) bool { return o == l })
	f.logs.Store(&all)
}
