package subscriber

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// orphanTime is how long stored subscriptions wait for their event type to be registered before
// they end as those of a removed type do (EVOL-1).
const orphanTime = time.Minute

// restorePause is the first wait before another attempt at restoring what could not be restored.
const (
	restorePause    = time.Second
	maxRestorePause = time.Minute
)

// loadPage is how many records are read at once at a start.
const loadPage = 500

// load reads which subscriptions there are. They count for the quotas from now on and are restored
// when their event type is registered (SUB-11).
func (w *Subscriptions) load(ctx context.Context) error {
	now, after := w.now(), ""
	for {
		page, err := w.store.Subscriptions(ctx, after, loadPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			r := &page[i]
			after = r.ID
			if Lapsed(r, now) {
				if err := w.store.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
					return err
				}
				continue
			}
			w.pending[r.ID] = waiting{r.Event, r.Principal}
			w.occupy(r.Principal, 1)
		}
	}
	if len(w.pending) > 0 {
		w.orphans = time.AfterFunc(orphanTime, func() { w.background(w.endOrphans) })
	}
	return nil
}

// isPending reports whether the id's record waits to be restored.
func (w *Subscriptions) isPending(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.pending[id]
	return ok
}

// A waiting record is one that is to be restored.
type waiting struct{ event, principal string }

// forget ends the waiting of a record that has ended, and gives its place back.
func (w *Subscriptions) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.pending[id]; ok {
		delete(w.pending, id)
		w.occupy(p.principal, -1)
	}
}

// Restore opens the type's log to the engine and restores its subscriptions in the background:
// hooks of the author may take their time. restored is called when that is done.
func (w *Subscriptions) Restore(ctx context.Context, et EventType, restored func()) error {
	if w.sharing != nil {
		_, err := w.shards(ctx, et.Name())
		restored()
		return err
	}
	fresh, err := w.open(ctx, et)
	if err != nil {
		return err
	}
	done := func() {
		if fresh != nil {
			fresh.Ready()
		}
		restored()
	}
	if len(w.pendingOf(et.Name())) == 0 {
		done()
		return nil
	}
	w.restoring.Add(1)
	w.background(func() {
		w.restoreStored(et)
		w.restoring.Add(-1)
		for pause := restorePause; ; pause = min(2*pause, maxRestorePause) {
			ids := w.pendingOf(et.Name())
			if len(ids) == 0 {
				break
			}
			select {
			case <-w.ctx.Done():
				return
			case <-time.After(pause):
			}
			for _, id := range ids {
				w.restorePending(et, id, nil)
			}
		}
		done()
	})
	return nil
}

// pendingOf returns the ids of an event type's records that wait to be restored.
func (w *Subscriptions) pendingOf(event string) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.pending {
		if p.event == event {
			ids = append(ids, id)
		}
	}
	return ids
}

// restoreStored restores the type's records as the store lists them, several at once, since the author's
// hooks are asked for each. What fails goes on waiting.
func (w *Subscriptions) restoreStored(et EventType) {
	var all sync.WaitGroup
	defer all.Wait()
	next := make(chan *store.Subscription)
	defer close(next)
	for range restorers {
		all.Go(func() {
			for r := range next {
				w.restorePending(et, r.ID, r)
			}
		})
	}
	for after := ""; ; {
		page, err := w.store.Subscriptions(w.ctx, after, loadPage)
		if w.ctx.Err() != nil {
			return
		}
		if err != nil {
			w.o.Log.Internal(w.ctx, "reading the webhook subscriptions to "+et.Name(), fault.Unseen{Err: err})
			return
		}
		if len(page) == 0 {
			return
		}
		after = page[len(page)-1].ID
		for i := range page {
			if page[i].Event != et.Name() {
				continue
			}
			select {
			case next <- &page[i]:
			case <-w.ctx.Done():
				return
			}
		}
	}
}

// restorePending restores one record that waits: r, or as it is stored where r is nil. A record does not
// change while it waits, for whoever changes one restores it first.
func (w *Subscriptions) restorePending(et EventType, id string, r *store.Subscription) {
	err := func() error {
		unlock, err := w.keys.Lock(w.ctx, id)
		if err != nil {
			return err
		}
		defer unlock()
		switch {
		case !w.isPending(id):
			return nil
		case r == nil:
			return w.restoreOne(w.ctx, et, id)
		}
		return w.restoreRecord(w.ctx, et, r)
	}()
	if err != nil {
		w.o.Log.Internal(w.ctx, "restoring webhook subscription "+id, fault.Unseen{Err: err})
	}
}

// restoreOne takes up one stored subscription, as restoreRecord does. The caller holds the key.
func (w *Subscriptions) restoreOne(ctx context.Context, et EventType, id string) error {
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		w.forget(id)
		return nil
	}
	return w.restoreRecord(ctx, et, &r)
}

// restoreRecord takes up one stored subscription: OnSubscribe comes before its delivery resumes
// (SUB-11), and what would end a live subscription ends it now. An error means that it has to be
// tried again. The caller holds the key.
func (w *Subscriptions) restoreRecord(ctx context.Context, et EventType, r *store.Subscription) error {
	d := et.Current()
	switch {
	case Lapsed(r, w.now()):
		return w.endRecord(ctx, nil, r, nil)
	case d == nil:
		return w.endRecord(ctx, nil, r, fault.NotFound("event"))
	case !d.Webhooks():
		return w.endRecord(ctx, nil, r, fault.UnsupportedMode(wire.ModeWebhook))
	case d.Changed() != "":
		return w.endRecord(ctx, nil, r, fault.SchemaChanged(d.Changed()))
	}
	a, err := reparse(d, r.Arguments)
	if err != nil {
		return w.endRecord(ctx, nil, r, fault.SchemaChanged(fault.FeatureInput))
	}
	sub := identityOf(r)
	ctx = hook.WithPrincipal(ctx, r.Principal)
	if e := w.host.Refused(ctx, r.Principal, a); e != nil {
		return w.endRecord(ctx, nil, r, e)
	}
	if err := w.host.Join(ctx, sub, a); err != nil {
		var refusal *events.Error
		if errors.As(err, &refusal) && refusal.Kind != wire.Internal {
			return w.endRecord(ctx, nil, r, refusal)
		}
		return err
	}
	cursor, from, lost := w.takeUp(et, d, r)
	h, truncated, err := w.start(ctx, et, a, *r, cursor, seat{from: from})
	if err != nil {
		w.host.Leave(sub, a)
		return err
	}
	w.mu.Lock()
	delete(w.pending, r.ID) // its place in the quotas is h's now
	w.mu.Unlock()
	if lost || truncated {
		h.Handle.Gap()
	}
	return nil
}

// takeUp makes the record's progress that of the log as it is now.
func (w *Subscriptions) takeUp(et EventType, d Definition, r *store.Subscription) (cursor string, from origin, lost bool) {
	if d.Check() != nil {
		cursor = r.Progress.Upstream
		r.Progress = store.Progress{Upstream: cursor}
		return cursor, moved, false
	}
	oldest, head := et.Topic().Bounds()
	epoch := et.Topic().Epoch()
	switch {
	case d.Kernel().NoReplay:
		r.Progress = store.Progress{Epoch: epoch, Base: head}
		return "", moved, false
	case r.Progress.Epoch != epoch || r.Progress.Base > head:
		r.Progress = store.Progress{Epoch: epoch, Base: oldest - 1}
		return "", moved, true
	}
	return "", stored, false
}

// endRecord ends a subscription that is stored and not live, with an envelope when there is a
// reason to tell.
func (w *Subscriptions) endRecord(ctx context.Context, p *part, r *store.Subscription, reason *events.Error) error {
	var records store.OwnedStore = w.store
	var shard *delivery.Shard
	if p != nil {
		records, shard = p.owned, p.shard
	}
	if p != nil && reason == nil {
		return p.deleteLapsed(ctx, r)
	}
	if err := records.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		return err
	}
	w.forget(r.ID)
	if reason == nil {
		return nil
	}
	r.Progress = store.Progress{}
	h, err := w.engine.Add(ctx, delivery.Entry{Subscription: *r, Reader: endedReader{}, Shard: shard, Restored: true})
	if err != nil {
		return nil // it has ended all the same
	}
	h.Terminate(*fault.Object(reason, wire.Dialect(r.Codes)))
	return nil
}

// endOrphans ends what waits for types that nobody has registered.
func (w *Subscriptions) endOrphans() {
	w.mu.Lock()
	byEvent := map[string][]string{}
	for id, p := range w.pending {
		byEvent[p.event] = append(byEvent[p.event], id)
	}
	w.mu.Unlock()
	for event, ids := range byEvent {
		if w.host.Known(event) {
			continue // still being restored
		}
		for _, id := range ids {
			w.endOrphan(id)
		}
	}
}

func (w *Subscriptions) endOrphan(id string) {
	unlock, err := w.keys.Lock(w.ctx, id)
	if err != nil {
		return
	}
	defer unlock()
	if !w.isPending(id) {
		return
	}
	r, ok, err := w.store.Subscription(w.ctx, id)
	if err == nil && ok {
		err = w.endRecord(w.ctx, nil, &r, fault.NotFound("event"))
	}
	if err != nil {
		w.o.Log.Internal(w.ctx, "ending webhook subscription "+id, err)
	}
}
