package subscriber

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func (w *Subscriptions) newPart(t Ownership, et eventtype.Type) *part {
	p := &part{w: w, ownership: t, et: et, owned: w.store.Owned(t.ShardFence()), live: map[*Live]struct{}{},
		touched: map[string]bool{}, left: map[string]string{}}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: &trimmingStore{p.owned, w}, Fenced: t.Fenced,
		Undivided: w.cluster.Shards == 1, May: w.cluster.May(t)})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		p.shard.Drop()
		return nil
	}
	w.parts[t.ShardFence().Shard] = p
	return p
}

// givesAway reports whether the part belongs to the shard and is closed.
func (p *part) givesAway(of engine.Shard) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.closed && p.ownership.ShardFence().Shard == of
}

// close prevents new subscriptions from starting in the part.
func (p *part) close() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.closed = true
}

// forget removes the part and its subscriptions, which continue in another process.
func (p *part) forget() {
	w := p.w
	w.mu.Lock()
	p.closed = true
	delete(w.parts, p.ownership.ShardFence().Shard)
	live := slices.Collect(maps.Keys(p.live))
	log := p.log
	w.mu.Unlock()
	if log != nil {
		w.unfollow(p.et, log)
	}
	for _, h := range live {
		if w.delist(h) {
			h.Handle.Remove()
			w.host.Release(h.Identity(), h.Arguments())
		}
	}
}

// lost reports whether a write was fenced. If so, it ends the ownership.
func (p *part) lost(err error) bool {
	if errors.Is(err, engine.ErrFenced) {
		p.ownership.Fenced()
		return true
	}
	return false
}

// deleteLapsed deletes the record of an expired subscription. It returns [errAgain] if another process refreshed
// the subscription since r was read: like a refresh, it first makes a compare-and-swap write.
func (p *part) deleteLapsed(ctx context.Context, r *store.Subscription) error {
	revision, err := p.owned.PutSubscription(ctx, *r)
	switch {
	case errors.Is(err, store.ErrConflict):
		return errAgain
	case err != nil:
		return err
	}
	r.Revision = revision
	return p.owned.DeleteSubscription(ctx, r.ID, r.Generation)
}

// expire ends an expired live subscription unless it was refreshed meanwhile, perhaps by another process whose
// notification has not arrived.
func (w *Subscriptions) expire(ctx context.Context, h *Live) {
	for range maxRounds {
		r, ok, err := w.store.Subscription(ctx, h.ID)
		if err == nil && ok && r.Generation == h.Generation {
			if !Lapsed(&r, w.Now()) {
				h.Handle.Extend(r.ExpiresAt)
				w.apply(h, &r)
				return
			}
			if err = h.part.deleteLapsed(ctx, &r); errors.Is(err, errAgain) {
				continue
			}
		}
		if err != nil {
			if !h.part.lost(err) {
				w.o.Log.Internal(ctx, "ending webhook subscription "+h.ID, err)
			}
			w.Changed(h.ID, h.part.ownership.ShardFence().Shard)
			return
		}
		if w.delist(h) {
			h.Handle.Remove()
			w.leave(h)
			w.tell(ctx, "webhook subscription expires", h)
		}
		return
	}
	w.Changed(h.ID, h.part.ownership.ShardFence().Shard) // other processes keep changing it
}

// compareEvery is the interval at which an owner compares its live subscriptions with the records: a process may
// have changed a record and died before it notified the owner.
const compareEvery = 2 * time.Minute

// compare queues the records that differ from the live subscriptions for a sync.
func (p *part) compare(ctx context.Context) error {
	w, of := p.w, p.ownership.ShardFence().Shard
	w.mu.Lock()
	live := maps.Clone(p.live)
	restored := p.touched == nil
	w.mu.Unlock()
	if !restored {
		return nil
	}
	for after := ""; ; {
		page, err := p.owned.Subscriptions(ctx, after, loadPage)
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
			case h == nil, h.part != p, h.Generation != r.Generation, h.refreshed < r.RefreshedAt.UnixNano(),
				h.Handle.Paused() == r.PausedAt.IsZero(), h.neglected(r):
				changed = append(changed, r.ID)
			}
		}
		w.mu.Unlock()
		for _, id := range changed {
			w.Changed(id, of)
		}
	}
	for h := range live {
		w.Changed(h.ID, of)
	}
	return nil
}

// A fanout notifies the logs of this process's shards of appends.
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

// follow adds the log to those notified of appends to the type's log.
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
