package subscriber

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A syncQueue is a queue of the ids of records to reread, without duplicates.
type syncQueue struct {
	mu      sync.Mutex
	waiting map[string]engine.Shard // records that have not been reread
	order   []string                // of these, the records that no goroutine has taken
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
	known, ok := q.waiting[id]
	if !ok {
		q.order = append(q.order, id)
	}
	q.waiting[id] = cmp.Or(of, known)
	if q.workers < maxSyncs {
		q.workers++
		if !w.runInBackground(w.syncQueued) {
			q.workers--
		}
	}
}

// syncQueued reconciles the queued records until the queue is empty. It does not wait for a request or a hook that holds
// the key of a record.
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
		q.order = q.order[1:]
		q.mu.Unlock()
		if unlock, ok := w.keys.TryLock(id); ok {
			w.syncRecord(id, unlock)
			continue
		}
		w.runInBackground(func() {
			if unlock, err := w.keys.Lock(w.ctx, id); err == nil {
				w.syncRecord(id, unlock)
			}
		})
	}
}

// syncRecord rereads a queued record and reconciles the live subscription with it. The caller must hold the key, which
// syncRecord releases. If the subscription ends, syncRecord does not wait for the hook.
func (w *Subscriptions) syncRecord(id string, unlock func()) {
	q := &w.syncs
	q.mu.Lock()
	of := q.waiting[id]
	delete(q.waiting, id)
	q.mu.Unlock()
	r, err := w.readRecord(w.ctx, id)
	finish := func() {
		if err == nil {
			err = w.reconcile(w.ctx, id, r)
		}
		unlock()
		if err == nil || errors.Is(err, errShardClosed) || w.ctx.Err() != nil {
			return
		}
		w.o.Log.Internal(w.ctx, "synchronizing webhook subscription "+id, fault.Unseen{Err: err})
		select {
		case <-w.ctx.Done():
		case <-time.After(syncPause):
			w.Changed(id, of)
		}
	}
	h := w.Get(id)
	ends := h != nil && err == nil && (w.hasEnded(r) || r.Generation != h.Handle.Generation())
	if !ends || !w.runInBackground(finish) {
		finish()
	}
}

// readRecord returns the record with the id, or nil if it does not exist.
func (w *Subscriptions) readRecord(ctx context.Context, id string) (*store.Subscription, error) {
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return &r, nil
}

// hasEnded reports whether the record does not exist or has expired.
func (w *Subscriptions) hasEnded(r *store.Subscription) bool { return r == nil || Lapsed(r, w.Now()) }

// reconcile makes the live subscription with the id match its record, which is nil if it does not exist. It ends the
// subscription, makes it live, or applies the changes and performs the new requests. The caller must hold the key.
func (w *Subscriptions) reconcile(ctx context.Context, id string, r *store.Subscription) error {
	h := w.Get(id)
	if r == nil {
		if h != nil {
			w.endLive(ctx, h, endElsewhere)
		}
		return nil
	}
	p := w.ownedShardOf(shardOfRecord(r))
	switch {
	case h == nil:
	case Lapsed(r, w.Now()):
		deleted, err := h.ownedShard.deleteLapsed(ctx, r)
		if deleted {
			w.endLive(ctx, h, endExpired)
		}
		return err
	case r.Generation != h.Handle.Generation():
		w.endLive(ctx, h, endReplaced) // before the new one calls Join: the author sees both (SRV-3)
	case p == h.ownedShard:
		w.applyRecord(h, r)
		return nil
	case h.ownedShard.isClosing(shardOfRecord(r)):
		return nil // deliveries in flight finish, and the next owner reads the record
	case !w.endLive(ctx, h, endMoved):
		return nil // End deletes its record
	}
	if p == nil {
		return nil
	}
	return w.begin(p.ownership.Context(), p, r, &beginning{})
}

// applyRecord applies a record to its live subscription. If the record contains a refresh, applyRecord returns the results
// of [delivery.Handle.Refresh].
func (w *Subscriptions) applyRecord(h *Live, r *store.Subscription) (found delivery.Status, refreshed bool) {
	r.NotBefore = w.limitHold(r.NotBefore)
	w.mu.Lock()
	fresh := r.RefreshedAt.UnixNano() > h.refreshed
	h.revision, h.refreshed = r.Revision, r.RefreshedAt.UnixNano()
	h.schema, h.dialect = r.Schema, wire.Dialect(r.Codes)
	w.mu.Unlock()
	if !r.Truncated {
		h.Handle.Truncated(true)
	}
	if r.PausedAt.IsZero() {
		h.Handle.Unpause()
	} else {
		h.Handle.Pause(r.PausedAt)
	}
	h.Handle.Extend(r.ExpiresAt) // also if this process has reported its expiry
	if fresh {
		found, refreshed = h.Handle.Refresh(*r)
	} else {
		h.Handle.HoldUntil(r.NotBefore)
	}
	w.performRequests(h, r)
	return found, refreshed
}
