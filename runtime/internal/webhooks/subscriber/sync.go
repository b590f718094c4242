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

// A syncQueue is a queue of the ids of records to reread, without duplicates.
type syncQueue struct {
	mu      sync.Mutex
	waiting map[string]engine.Shard
	order   []string
	workers int
}

// Changed queues the record with the id for another read after another process has created, changed or deleted it. The
// parameter of is the shard to which the record might belong. New deliveries to the subscription do not start before
// the read. Changed does not wait.
func (w *Subscriptions) Changed(id string, of engine.Shard) {
	if w == nil {
		return
	}
	w.mu.Lock()
	h, p := w.byID[id], w.ownedShards[of]
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
	w.queueSync(id, of)
}

// Compare rereads all records of this process's shards, because notifications might have been lost.
func (w *Subscriptions) Compare(ctx context.Context) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	parts := slices.Collect(maps.Values(w.ownedShards))
	w.mu.Unlock()
	var failed error
	for _, p := range parts {
		if err := p.queueDifferences(ctx); err != nil && p.ownership.Context().Err() == nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

const (
	// changeTime is the maximum time that deliveries wait while a changed record is read.
	changeTime = 20 * time.Second
	// maxSyncs is the maximum number of records that are reread concurrently.
	maxSyncs = 8
	// syncPause is the pause after a failure.
	syncPause = 250 * time.Millisecond
)

func (w *Subscriptions) queueSync(id string, of engine.Shard) {
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
	if q.workers < maxSyncs {
		q.workers++
		if !w.runInBackground(w.syncQueued) {
			q.workers--
		}
	}
}

// syncQueued reconciles the queued records until the queue is empty.
func (w *Subscriptions) syncQueued() {
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
		err := w.reconcileID(w.ctx, id)
		if err == nil || errors.Is(err, errShardClosed) || w.ctx.Err() != nil {
			continue
		}
		w.o.Log.Internal(w.ctx, "synchronizing webhook subscription "+id, fault.Unseen{Err: err})
		select {
		case <-w.ctx.Done():
		case <-time.After(syncPause):
			w.Changed(id, of)
		}
	}
}

// reconcileID reads the record with the id and reconciles the live subscription with it.
func (w *Subscriptions) reconcileID(ctx context.Context, id string) error {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		return w.reconcile(ctx, id, nil)
	}
	return w.reconcile(ctx, id, &r)
}

// reconcile makes the live subscription with the id match its record, which is nil if it does not exist. It ends the
// subscription, makes it live, or applies the changes and starts the pending actions. The caller must hold the key.
func (w *Subscriptions) reconcile(ctx context.Context, id string, r *store.Subscription) error {
	var p *ownedShard
	if r != nil {
		p = w.ownedShardOf(shardOfRecord(r))
	}
	h := w.Get(id)
	over := r == nil || Lapsed(r, w.Now())
	if h != nil && !over && r.Generation == h.Generation && h.ownedShard.isClosing(shardOfRecord(r)) {
		return nil // deliveries in flight finish, and the next owner reads the record
	}
	if h != nil && (over || r.Generation != h.Generation || p != h.ownedShard) {
		if w.removeLive(h) {
			h.Handle.Remove()
			switch {
			case over:
				old := h
				w.runInBackground(func() { w.callOnUnsubscribe(old) }) // its hook may be slow
				w.logEvent(ctx, "webhook subscription has ended elsewhere", h)
			case r.Generation != h.Generation:
				w.callOnUnsubscribe(h) // before the new one calls Join: the author sees both (SRV-3)
				w.logEvent(ctx, "webhook subscription has ended and begun elsewhere", h)
			default:
				w.host.Release(h.Identity(), h.Arguments())
			}
		}
		h = nil
	}
	switch {
	case r == nil || p == nil:
		return nil
	case h == nil:
		return w.restoreRecord(p.ownership.Context(), p, r)
	}
	w.applyRecord(h, r)
	return nil
}

// applyRecord applies a record to its live subscription.
func (w *Subscriptions) applyRecord(h *Live, r *store.Subscription) {
	r.NotBefore = w.limitHold(r.NotBefore)
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
		h.Handle.Extend(r.ExpiresAt) // it may have expired locally
		h.Handle.Refresh(*r, time.Time{})
	} else {
		h.Handle.HoldUntil(r.NotBefore)
	}
	w.startActions(h, r.Actions)
}
