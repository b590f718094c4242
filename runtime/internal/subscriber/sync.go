package subscriber

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A syncQueue are the ids of records to be looked at again, each once.
type syncQueue struct {
	mu      sync.Mutex
	waiting map[string]engine.Shard
	order   []string
	workers int
}

// Changed has the record of an id looked at again, because another process has made, changed or deleted
// it: it may be of the shard. Until then nothing is begun to be sent. It does not wait.
func (w *Subscriptions) Changed(id string, of engine.Shard) {
	if w == nil {
		return
	}
	w.mu.Lock()
	h, p := w.byID[id], w.parts[of]
	if h == nil && p != nil && p.touched != nil && !p.closed {
		p.touched[id] = true
		p = nil
	}
	w.mu.Unlock()
	if h == nil && p == nil {
		return
	}
	if h != nil {
		h.Handle.HoldUntil(w.Now().Add(changeTime))
	}
	w.queue(id, of)
}

// Compare looks again at every record of the shards that this process owns: it may have missed what it was
// told.
func (w *Subscriptions) Compare(ctx context.Context) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	parts := slices.Collect(maps.Values(w.parts))
	w.mu.Unlock()
	var failed error
	for _, p := range parts {
		if err := p.compare(ctx); err != nil && p.tenure.Context().Err() == nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

const (
	// changeTime bounds how long deliveries wait for a look at a record.
	changeTime = 20 * time.Second
	// syncers is how many records are looked at at once, syncPause how long one waits after a failure.
	syncers   = 8
	syncPause = 250 * time.Millisecond
)

func (w *Subscriptions) queue(id string, of engine.Shard) {
	q := &w.syncs
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[string]engine.Shard{}
	}
	if _, ok := q.waiting[id]; !ok {
		q.order = append(q.order, id)
	}
	q.waiting[id] = of
	if q.workers < syncers {
		q.workers++
		if !w.background(w.sync) {
			q.workers--
		}
	}
}

// sync looks at records until there are none to look at.
func (w *Subscriptions) sync() {
	q := &w.syncs
	for {
		q.mu.Lock()
		if len(q.order) == 0 || w.ctx.Err() != nil {
			q.workers--
			q.order = slices.Clip(q.order)
			q.mu.Unlock()
			return
		}
		id := q.order[0]
		of := q.waiting[id]
		q.order = q.order[1:]
		delete(q.waiting, id)
		q.mu.Unlock()
		err := w.syncOne(w.ctx, id)
		if err == nil || errors.Is(err, errPartClosed) || w.ctx.Err() != nil {
			continue
		}
		w.o.Log.Internal(w.ctx, "looking at webhook subscription "+id+" again", fault.Unseen{Err: err})
		select {
		case <-w.ctx.Done():
		case <-time.After(syncPause):
			w.Changed(id, of)
		}
	}
}

// syncOne makes what is live here what the record says.
func (w *Subscriptions) syncOne(ctx context.Context, id string) error {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return err
	}
	var p *part
	if ok {
		p = w.partOf(inShard(&r))
	}
	h := w.Get(id)
	over := !ok || Lapsed(&r, w.Now())
	if h != nil && !over && r.Generation == h.Generation && h.part.givesAway(inShard(&r)) {
		return nil // it concludes what is under way, and its next owner reads the record
	}
	if h != nil && (over || r.Generation != h.Generation || p != h.part) {
		if w.delist(h) {
			h.Handle.Remove()
			if over || r.Generation != h.Generation {
				old := h
				w.background(func() { w.leave(old) }) // its hook may take its time
				w.tell(ctx, "webhook subscription has ended elsewhere", h)
			} else {
				w.host.Release(h.Identity(), h.Arguments())
			}
		}
		h = nil
	}
	switch {
	case !ok || p == nil:
		return nil
	case h == nil:
		return w.takeUpRecord(p.tenure.Context(), p, &r)
	}
	w.apply(h, &r)
	return nil
}

// apply makes a live subscription what its record says.
func (w *Subscriptions) apply(h *Live, r *store.Subscription) {
	w.mu.Lock()
	fresh := r.RefreshedAt.UnixNano() > h.refreshed
	h.refreshed, h.schema = r.RefreshedAt.UnixNano(), r.Schema
	h.dialect = wire.Dialect(r.Codes)
	w.mu.Unlock()
	if !r.Truncated {
		h.Handle.Truncated(true)
	}
	if r.PausedAt.IsZero() {
		h.Handle.Unpause()
	} else {
		h.Handle.Pause(r.PausedAt)
	}
	if fresh {
		h.Handle.Extend(r.ExpiresAt) // its own time may be over by now
		h.Handle.Refresh(*r, time.Time{})
	} else {
		h.Handle.HoldUntil(r.NotBefore)
	}
}
