package subscriber

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// restorePause is the initial pause before a failed restoration is retried.
	restorePause    = time.Second
	maxRestorePause = time.Minute
	// recordsPerPage is the number of records per page of a read.
	recordsPerPage = 500
	// maxRestores is the maximum number of records of a shard that are restored concurrently. It is greater than 1
	// because the author's hooks can be slow.
	maxRestores = 8
	// maxShardReads is the maximum number of shards that are read concurrently.
	maxShardReads = 4
)

// errShardClosed is returned if this process no longer owns the shard.
var errShardClosed = fmt.Errorf("the shard has another owner: %w", delivery.ErrClosed)

// Serve restores the subscriptions of an event type if only one process serves the store. The process owns the shard
// until it exits. Serve is called when the type is registered. It restores existing subscriptions in the background,
// because the author's hooks can be slow, and then calls restored. A type that is registered again keeps its shard.
func (w *Subscriptions) Serve(ctx context.Context, t Ownership, et eventtype.Type, restored func()) error {
	w.mu.Lock()
	p := w.ownedShards[t.ShardFence().Shard]
	w.mu.Unlock()
	again := p != nil && p.et == et
	if p != nil && !again { // its source has changed
		p.shard.Drop()
		p.removeShard()
	}
	if !again {
		if p = w.newOwnedShard(t, et); p == nil {
			return delivery.ErrClosed
		}
	}
	if err := p.openShard(ctx); err != nil {
		if !again {
			p.shard.Drop()
			p.removeShard()
		}
		return err
	}
	if p.onRestored(restored); again {
		return nil
	}
	if some, err := p.owned.Subscriptions(ctx, "", 1); err == nil && len(some) == 0 {
		p.followChanges()
		p.markRestored()
		return nil
	}
	w.restoring.Add(1)
	tried := sync.OnceFunc(func() { w.restoring.Add(-1) })
	if !w.runInBackground(func() { p.restore(tried) }) {
		tried()
	}
	return nil
}

// onRestored calls restored after all records of the shard have been restored. If they have already been restored, it
// calls restored immediately.
func (p *ownedShard) onRestored(restored func()) {
	p.w.mu.Lock()
	whole := p.whole
	if !whole {
		p.restored = append(p.restored, restored)
	}
	p.w.mu.Unlock()
	if whole {
		restored()
	}
}

// markRestored records that all records have been restored, and calls the functions registered with onRestored.
func (p *ownedShard) markRestored() {
	p.w.mu.Lock()
	restored := p.restored
	p.whole, p.restored = true, nil
	p.w.mu.Unlock()
	for _, f := range restored {
		f()
	}
}

// needsRestore reports whether the record, whose subscription is not live, must still be restored.
func (p *ownedShard) needsRestore(r *store.Subscription) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	_, aside := p.left[r.ID]
	return !p.whole && !aside
}

// restore restores the records of the shard until all of them are live, have ended, or are left to other builds. It
// calls tried after it has tried to restore each record, or when it returns.
func (p *ownedShard) restore(tried func()) {
	defer tried()
	ctx := p.ownership.Context()
	var records []store.Subscription
	done := p.retryUntilDone(ctx, "reading the subscriptions of "+p.ownership.ShardFence().Shard.String(), func() (err error) {
		records, err = p.readRecords(ctx)
		return p.fencedToClosed(err)
	}) && p.retryUntilDone(ctx, restoringText, func() (err error) {
		records, err = p.restoreAll(ctx, records)
		tried()
		return p.setAside(ctx, records, err)
	})
	if !done {
		return
	}
	p.followChanges()
	if len(records) > 0 {
		done = p.retryUntilDone(ctx, restoringText, func() (err error) {
			records, err = p.restoreAll(ctx, records)
			return err
		})
	}
	if done {
		p.markRestored()
	}
}

// restoringText is the log message for failed restorations.
const restoringText = "restoring webhook subscriptions"

// setAside stores the records that could not be restored as open, so the mark does not move past entries that they must
// receive. The other records then do not wait for them. They are retried later.
func (p *ownedShard) setAside(ctx context.Context, records []store.Subscription, why error) error {
	if errors.Is(why, errShardClosed) {
		return why
	}
	for i := range records {
		if err := p.storeOpen(ctx, &records[i]); err != nil {
			return p.fencedToClosed(err)
		}
	}
	if len(records) > 0 {
		p.w.o.Log.Internal(ctx, restoringText, fault.Unseen{Err: why})
	}
	return nil
}

// followChanges starts to apply record changes. It is called after all records have been restored or set aside.
func (p *ownedShard) followChanges() {
	w := p.w
	w.mu.Lock()
	touched, log := p.touched, p.log
	p.touched = nil
	w.mu.Unlock()
	if log != nil {
		log.Ready()
	}
	for id := range touched {
		w.Changed(id, p.ownership.ShardFence().Shard)
	}
	w.Review(p.et)
}

// retryUntilDone calls try with increasing pauses until it succeeds, and logs failures. It returns false if the shard
// is closed.
func (p *ownedShard) retryUntilDone(ctx context.Context, doing string, try func() error) bool {
	for pause := restorePause; ; pause = min(2*pause, maxRestorePause) {
		err := try()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if !errors.Is(err, errShardClosed) {
			p.w.o.Log.Internal(ctx, doing, fault.Unseen{Err: err})
		}
		select {
		case <-ctx.Done():
			return false
		case <-p.ownership.Draining():
			return false
		case <-p.w.ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// readRecords reads the records of the shard and then opens the shard.
func (p *ownedShard) readRecords(ctx context.Context) (records []store.Subscription, err error) {
	w := p.w
	select {
	case w.reading <- struct{}{}:
		defer func() { <-w.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for after := ""; ; after = records[len(records)-1].ID {
		page, err := p.owned.Subscriptions(ctx, after, recordsPerPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		records = append(records, page...)
	}
	return records, p.openShard(ctx)
}

// openShard opens the shard and its log if they are not open. Opening the log reads its mark. The shard is then
// notified of all changes to its records.
func (p *ownedShard) openShard(ctx context.Context) error {
	w := p.w
	w.mu.Lock()
	log, open := p.log, p.open
	w.mu.Unlock()
	if !open {
		if err := w.readStanding(ctx); err != nil {
			return err
		}
	}
	if d := p.et.Current(); log == nil && d != nil && d.Webhooks() && d.Check() == nil && !p.et.Topic().Apart() {
		// The shard may have become free because of a new epoch, so deliver from the log of the current epoch.
		if err := p.et.Topic().Renew(ctx); err != nil {
			return err
		}
		var err error
		if log, err = p.shard.OpenLog(ctx, p.et.Name(), p.et.Topic().Head); err != nil {
			return err
		}
		w.follow(p.et, log)
		if open {
			log.Ready()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.log, p.open = log, true
	return nil
}

// restoreAll restores several records concurrently and returns the records that could not be restored.
func (p *ownedShard) restoreAll(ctx context.Context, records []store.Subscription) (rest []store.Subscription, failed error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next, over := make(chan store.Subscription), false
	for range min(maxRestores, len(records)) {
		all.Go(func() {
			for r := range next {
				err := p.restoreOne(ctx, r)
				if err == nil {
					continue
				}
				mu.Lock()
				rest, failed = append(rest, r), err
				mu.Unlock()
			}
		})
	}
	for _, r := range records {
		select {
		case next <- r:
			continue
		case <-ctx.Done():
		case <-p.ownership.Draining():
		}
		over = true
		break
	}
	close(next)
	all.Wait()
	if over {
		return records, errShardClosed
	}
	return rest, failed
}

// restoreOne restores a record that might have changed since it was read.
func (p *ownedShard) restoreOne(ctx context.Context, r store.Subscription) error {
	w := p.w
	unlock, err := w.keys.Lock(ctx, r.ID)
	if err != nil {
		return errShardClosed
	}
	defer unlock()
	if h := w.Get(r.ID); h != nil && h.ownedShard == p {
		return nil
	}
	w.mu.Lock()
	changed := p.touched == nil || p.touched[r.ID]
	w.mu.Unlock()
	if changed {
		now, err := w.readRecord(ctx, r.ID)
		if err != nil || now == nil {
			return err
		}
		r = *now
	}
	if w.ownedShardOf(p.ownership.ShardFence().Shard) != p {
		return errShardClosed
	}
	return w.reconcile(ctx, r.ID, &r)
}

// acceptStored decides whether a stored subscription becomes live. It calls OnSubscribe before delivery continues
// (REP-17). It ends the subscription for the same reasons that end a live subscription. However, it leaves a record that
// this build cannot read to other builds (REP-16).
func (w *Subscriptions) acceptStored(ctx context.Context, p *ownedShard, r *store.Subscription) (a eventtype.Arguments, accepted bool, err error) {
	if w.isForged(ctx, r) {
		return a, false, nil
	}
	if p.et == nil || Lapsed(r, w.Now()) {
		return a, false, p.endObsolete(ctx, r, w.orphanError(r.Event))
	}
	err = errShardClosed // the shard is being given away
	d := p.et.Current()
	if d != nil && d.Webhooks() {
		a, err = eventtype.Reparse(d, r.Arguments)
	}
	if e := w.cluster.Obsolete(p.et, r.Schema, err == nil); e != nil {
		return a, false, p.endObsolete(ctx, r, e)
	}
	if errors.Is(err, errShardClosed) {
		return a, false, err
	}
	if err != nil {
		return a, false, w.leaveToOthers(ctx, p, r)
	}
	w.mu.Lock()
	delete(p.left, r.ID)
	w.mu.Unlock()
	if e := p.endReason(r); e != nil {
		return a, false, p.endRecord(ctx, r, e)
	}
	sub := identityOf(r)
	sub.Restored = true
	refused, err := w.callHooks(hook.WithPrincipal(ctx, r.Principal), sub, a)
	if refused != nil {
		return a, false, p.endRecord(ctx, r, refused)
	}
	return a, err == nil, err
}

// convertProgress converts the record's progress to the log's current epoch, which can contain entries that this
// process has not read. The result moved reports whether the new progress differs from the stored progress.
func (w *Subscriptions) convertProgress(ctx context.Context, p *ownedShard, d eventtype.Definition, r *store.Subscription) (cursor string, moved, lost bool, err error) {
	if d.Check() != nil {
		cursor = r.Progress.Upstream
		r.Progress = store.Progress{Upstream: cursor}
		return cursor, false, false, nil
	}
	t := p.et.Topic()
	if r.Progress.Epoch != t.Epoch() {
		if err := t.Renew(ctx); err != nil {
			return "", false, false, err
		}
	}
	head := t.Head()
	if r.Progress.Base > head {
		if head, err = t.Latest(ctx); err != nil {
			return "", false, false, err
		}
	}
	if r.Progress.Epoch == t.Epoch() && r.Progress.Base <= head {
		return "", false, false, nil
	}
	if t.Apart() {
		r.Progress = store.Progress{Epoch: t.Epoch(), Base: head}
		return "", true, false, nil
	}
	// The new progress is stored after an attempt to send the gap envelope.
	if err := p.storeOpen(ctx, r); err != nil {
		return "", false, false, err
	}
	oldest, _ := t.Bounds()
	r.Progress = store.Progress{Epoch: t.Epoch(), Base: oldest - 1, Open: true}
	return "", true, true, nil
}

// storeOpen stores a record of the shard as open, so the log's mark does not move past an entry that the subscription
// must receive.
func (p *ownedShard) storeOpen(ctx context.Context, r *store.Subscription) error {
	p.w.mu.Lock()
	log := p.log
	p.w.mu.Unlock()
	if log == nil { // a feed has no mark
		return nil
	}
	return log.StoreOpen(ctx, r)
}

// fencedToClosed converts the error of a fenced write to errShardClosed.
func (p *ownedShard) fencedToClosed(err error) error {
	if p.checkFenced(err) {
		return errShardClosed
	}
	return err
}

// leaveToOthers stores a record as open and leaves it to builds that can read it.
func (w *Subscriptions) leaveToOthers(ctx context.Context, p *ownedShard, r *store.Subscription) error {
	if err := p.storeOpen(ctx, r); err != nil {
		return p.fencedToClosed(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.left[r.ID] = r.Schema
	return nil
}

// isForged reports whether fields that determine a record's id have been changed. With a changed URL, for example, the
// secrets would sign for another endpoint. Such a record is skipped and left unchanged.
func (w *Subscriptions) isForged(ctx context.Context, r *store.Subscription) bool {
	canonical, err := wire.Canonical(r.Arguments)
	if err == nil && wire.SubscriptionID(wire.ModeWebhook, r.Principal, r.URL, r.Event, canonical) == r.ID {
		return false
	}
	w.o.Log.Internal(ctx, "restoring webhook subscription "+r.ID, errForged)
	return true
}

var errForged = errors.New("its principal, URL, event type or arguments do not match its id")

// endRecord ends a stored subscription that is not live. It sends a terminated envelope unless the subscription has
// expired.
func (p *ownedShard) endRecord(ctx context.Context, r *store.Subscription, reason *events.Error) error {
	if Lapsed(r, p.w.Now()) {
		_, err := p.deleteLapsed(ctx, r)
		return err
	}
	if err := p.owned.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		return p.fencedToClosed(err)
	}
	r.Progress = store.Progress{}
	h, err := p.w.engine.Add(ctx, delivery.Entry{Subscription: *r, Reader: endedReader{}, Shard: p.shard})
	if err != nil {
		return nil // it has ended anyway
	}
	h.Terminate(*fault.Object(reason, wire.Dialect(r.Codes)))
	return nil
}
