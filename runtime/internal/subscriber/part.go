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

func (w *Subscriptions) newPart(t Tenure, et eventtype.Type) *part {
	p := &part{w: w, tenure: t, et: et, owned: w.store.Owned(t.Hold()), live: map[*Live]struct{}{},
		touched: map[string]bool{}, left: map[string]string{}}
	p.shard = w.engine.NewShard(delivery.ShardOptions{Store: &trimmingStore{p.owned, w}, Fenced: t.Fenced,
		Undivided: w.cluster.Shards == 1, May: w.cluster.May(t)})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		p.shard.Drop()
		return nil
	}
	w.parts[t.Hold().Shard] = p
	return p
}

// givesAway reports whether the part is that of the shard, and nothing more begins in it.
func (p *part) givesAway(of engine.Shard) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.closed && p.tenure.Hold().Shard == of
}

// close lets nothing more begin in the part.
func (p *part) close() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.closed = true
}

// forget takes the part's subscriptions out: they go on elsewhere.
func (p *part) forget() {
	w := p.w
	w.mu.Lock()
	p.closed = true
	delete(w.parts, p.tenure.Hold().Shard)
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

// lost tells whether a write was fenced, and ends the tenure then.
func (p *part) lost(err error) bool {
	if errors.Is(err, engine.ErrFenced) {
		p.tenure.Fenced()
		return true
	}
	return false
}

// deleteLapsed takes the record of a subscription away whose time is over, unless another process has
// prolonged it since r was read: then the error is [errAgain]. A refresh compares and swaps, and so
// does this before it deletes.
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

// expire ends a live subscription whose time is over, unless it was refreshed since: at another process, of which
// this one has not heard yet, or at this moment. Then it goes on as it is.
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
			w.Changed(h.ID, h.part.tenure.Hold().Shard)
			return
		}
		if w.delist(h) {
			h.Handle.Remove()
			w.leave(h)
			w.tell(ctx, "webhook subscription expires", h)
		}
		return
	}
	w.Changed(h.ID, h.part.tenure.Hold().Shard) // somebody else changes it all the time
}

// compareEvery is how often an owner compares what is live with what is stored: a process may have died
// between a change and telling of it.
const compareEvery = 2 * time.Minute

// compare has the records looked at that are not what is live.
func (p *part) compare(ctx context.Context) error {
	w, of := p.w, p.tenure.Hold().Shard
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
				h.Handle.Paused() == r.PausedAt.IsZero():
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

// mark stores how far operators' orders are done.
func (p *part) mark(atOnce bool) {
	p.w.mu.Lock()
	orders, restored := p.orders, p.touched == nil
	p.w.mu.Unlock()
	if orders == nil || !restored {
		return
	}
	ctx, cancel := context.WithTimeout(p.tenure.Context(), finishTime)
	defer cancel()
	if err := orders.Mark(ctx, p.owned, atOnce); err != nil && !p.lost(err) && ctx.Err() == nil {
		p.w.o.Log.Internal(ctx, "storing which orders are done", err)
	}
}

// A fanout tells the logs of the shards that this process owns of appends.
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

// follow has the log told of appends to the type's.
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
