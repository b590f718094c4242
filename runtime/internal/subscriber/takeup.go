package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// restorePause is the first pause before a failed restore is retried.
	restorePause    = time.Second
	maxRestorePause = time.Minute
	// loadPage is the number of records per page of a read.
	loadPage = 500
	// restorers is the number of a shard's records that are restored concurrently, because the author's hooks may be
	// slow.
	restorers = 8
	// readers is the number of shards that are read concurrently.
	readers = 4
)

// errPartClosed means that this process no longer owns the shard.
var errPartClosed = errors.New("the shard has another owner")

// Serve restores the subscriptions of an event type in the only process that serves the store; its ownership lasts as
// long as the process. It runs at the type's registration and restores existing subscriptions in the background,
// since the author's hooks may be slow. It calls restored when that is done. A type that is registered again keeps
// its part.
func (w *Subscriptions) Serve(ctx context.Context, t Ownership, et eventtype.Type, restored func()) error {
	w.mu.Lock()
	p := w.parts[t.ShardFence().Shard]
	w.mu.Unlock()
	again := p != nil && p.et == et
	if p != nil && !again { // its source has changed
		p.shard.Drop()
		p.forget()
	}
	if !again {
		if p = w.newPart(t, et); p == nil {
			return delivery.ErrClosed
		}
	}
	if err := p.begin(ctx); err != nil {
		if !again {
			p.shard.Drop()
			p.forget()
		}
		return err
	}
	if p.after(restored); again {
		return nil
	}
	if some, err := p.owned.Subscriptions(ctx, "", 1); err == nil && len(some) == 0 {
		p.conclude(ctx)
		p.finish()
		return nil
	}
	w.restoring.Add(1)
	tried := sync.OnceFunc(func() { w.restoring.Add(-1) })
	if !w.background(func() { p.restore(tried) }) {
		tried()
	}
	return nil
}

// after calls restored once the part's records are restored, or now if they are.
func (p *part) after(restored func()) {
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

// finish marks the part as whole and calls the waiting functions.
func (p *part) finish() {
	p.w.mu.Lock()
	restored := p.restored
	p.whole, p.restored = true, nil
	p.gaps = later(p.gaps, p.w.gaps[p.et.Name()])
	p.w.mu.Unlock()
	p.mark()
	for _, f := range restored {
		f()
	}
}

// waits reports whether the record, which is not live, still has to be restored.
func (p *part) waits(r *store.Subscription) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	_, aside := p.left[r.ID]
	return !p.whole && !aside
}

// restore restores the records of the part until all are live, have ended or are left to other builds. It calls
// tried once each record was tried, or will not be.
func (p *part) restore(tried func()) {
	defer tried()
	ctx := p.ownership.Context()
	var records []store.Subscription
	done := p.persist(ctx, "reading the subscriptions of "+p.ownership.ShardFence().Shard.String(), func() (err error) {
		records, err = p.read(ctx)
		return p.ended(err)
	}) && p.persist(ctx, restoring, func() (err error) {
		records, err = p.takeUpAll(ctx, records)
		tried()
		return p.setAside(ctx, records, err)
	})
	if !done {
		return
	}
	p.conclude(ctx)
	if len(records) > 0 {
		done = p.persist(ctx, restoring, func() (err error) {
			records, err = p.takeUpAll(ctx, records)
			return err
		})
	}
	if done {
		p.finish()
	}
}

// restoring is the log text for failures.
const restoring = "restoring webhook subscriptions"

// setAside stores records as open that the author's hooks did not let restore. The other records need not wait for
// them, and the mark does not pass entries that they must get. They are retried later.
func (p *part) setAside(ctx context.Context, records []store.Subscription, why error) error {
	if errors.Is(why, errPartClosed) {
		return why
	}
	for i := range records {
		if err := p.storeOpen(ctx, &records[i]); err != nil {
			return p.ended(err)
		}
	}
	if len(records) > 0 {
		p.w.o.Log.Internal(ctx, restoring, fault.Unseen{Err: why})
	}
	return nil
}

// conclude starts to follow changes of records after all records have been restored or set aside.
func (p *part) conclude(ctx context.Context) {
	w := p.w
	w.mu.Lock()
	touched, log, live, left := p.touched, p.log, len(p.live), len(p.left)
	p.touched = nil
	w.mu.Unlock()
	if live+left > 0 {
		w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: webhook subscriptions of a shard continue in this process",
			slog.String("shard", p.ownership.ShardFence().Shard.String()), slog.Int("live", live), slog.Int("left", left))
	}
	if log != nil {
		log.Ready()
	}
	for id := range touched {
		w.Changed(id, p.ownership.ShardFence().Shard)
	}
	w.Review(p.et)
}

// persist retries try, with pauses, until it succeeds, and logs failures. It returns false if the part is closed.
func (p *part) persist(ctx context.Context, doing string, try func() error) bool {
	for pause := restorePause; ; pause = min(2*pause, maxRestorePause) {
		err := try()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if !errors.Is(err, errPartClosed) {
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

// read reads the records, then opens the part.
func (p *part) read(ctx context.Context) (records []store.Subscription, err error) {
	w := p.w
	select {
	case w.reading <- struct{}{}:
		defer func() { <-w.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for after := ""; ; after = records[len(records)-1].ID {
		page, err := p.owned.Subscriptions(ctx, after, loadPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		records = append(records, page...)
	}
	return records, p.begin(ctx)
}

// begin opens the part, unless it is open, and its log, which reads the mark. From then on the part is notified of
// each change of its records.
func (p *part) begin(ctx context.Context) error {
	w := p.w
	w.mu.Lock()
	log, open := p.log, p.open
	w.mu.Unlock()
	if !open {
		if err := p.recall(ctx); err != nil {
			return err
		}
	}
	if d := p.et.Current(); log == nil && d != nil && d.Webhooks() && d.Check() == nil && !p.et.Topic().Apart() {
		// The shard may have become free because of a new epoch; deliver from the log of the current epoch.
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

// takeUpAll restores records, several concurrently, and returns the records that have to wait.
func (p *part) takeUpAll(ctx context.Context, records []store.Subscription) (rest []store.Subscription, failed error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next, over := make(chan store.Subscription), false
	for range min(restorers, len(records)) {
		all.Go(func() {
			for r := range next {
				err := p.takeUpOne(ctx, r)
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
		return records, errPartClosed
	}
	return rest, failed
}

// takeUpOne restores a record that was read a while ago.
func (p *part) takeUpOne(ctx context.Context, r store.Subscription) error {
	w := p.w
	unlock, err := w.keys.Lock(ctx, r.ID)
	if err != nil {
		return errPartClosed
	}
	defer unlock()
	if h := w.Get(r.ID); h != nil && h.part == p {
		return nil
	}
	w.mu.Lock()
	changed := p.touched == nil || p.touched[r.ID]
	w.mu.Unlock()
	if changed {
		now, ok, err := w.store.Subscription(ctx, r.ID)
		if err != nil || !ok {
			return err
		}
		r = now
	}
	if w.partOf(p.ownership.ShardFence().Shard) != p {
		return errPartClosed
	}
	return w.reconcile(ctx, r.ID, &r)
}

// takeUpRecord makes a stored subscription live. It calls OnSubscribe before delivery continues (REP-17). It ends
// the subscription for the same reasons as a live one, but leaves a record that this build cannot read to other
// builds (REP-16). The caller holds the key.
func (w *Subscriptions) takeUpRecord(ctx context.Context, p *part, r *store.Subscription) error {
	if w.forged(ctx, r) {
		return nil
	}
	if Lapsed(r, w.Now()) {
		err := p.ended(w.endRecord(ctx, p, r, nil))
		if errors.Is(err, errAgain) {
			w.Changed(r.ID, inShard(r))
			return nil
		}
		return err
	}
	var a eventtype.Arguments
	err := errPartClosed // the shard is being given away
	d := p.et.Current()
	if d != nil && d.Webhooks() {
		a, err = eventtype.Reparse(d, r.Arguments)
	}
	if e := w.cluster.Obsolete(p.et, r.Schema, err == nil); e != nil {
		return p.ended(w.endRecord(ctx, p, r, e))
	}
	if errors.Is(err, errPartClosed) {
		return err
	}
	if err != nil {
		return w.leaveToOthers(ctx, p, r)
	}
	w.mu.Lock()
	delete(p.left, r.ID)
	w.mu.Unlock()
	if e := p.ends(r); e != nil {
		return p.ended(w.endRecord(ctx, p, r, e))
	}
	sub := identityOf(r)
	sub.Restored = true
	ctx = hook.WithPrincipal(ctx, r.Principal)
	refused, err := w.askHooks(ctx, sub, a)
	if refused != nil {
		return p.ended(w.endRecord(ctx, p, r, refused))
	}
	if err != nil {
		return err
	}
	h, err := w.startStored(ctx, p, a, *r)
	if err != nil {
		w.host.Release(sub, a)
		return err
	}
	// Apply the operators' actions since the record was read.
	if e := p.ends(r); e != nil {
		w.End(h, e)
		return nil
	}
	if p.hasGap(r) {
		w.Gap(h)
	}
	h.Handle.HoldUntil(r.NotBefore)
	w.perform(h, r.Actions)
	return nil
}

// startStored starts a restored subscription. Nothing is delivered until the caller releases it. The caller holds
// the key and has called Join.
func (w *Subscriptions) startStored(ctx context.Context, p *part, a eventtype.Arguments, r store.Subscription) (*Live, error) {
	if r.RefreshedAt.After(r.Health.SuspendedAt) {
		r.Health.Suspended, r.Health.SuspendedAt = false, time.Time{} // the refresh did not reach its owner (SUB-5)
	}
	cursor, moved, lost, err := w.resume(ctx, p, a.Def, &r)
	if err != nil {
		return nil, p.ended(err)
	}
	h, _, err := w.start(ctx, p.et, a, r, cursor, seat{part: p, moved: moved, lost: lost, hold: w.Now().Add(changeTime)})
	if errors.Is(err, delivery.ErrClosed) {
		return nil, errPartClosed
	}
	return h, p.ended(err)
}

// resume converts the record's progress to the log's current epoch, which may have entries that this process has
// not seen. moved reports whether the result differs from the stored progress.
func (w *Subscriptions) resume(ctx context.Context, p *part, d eventtype.Definition, r *store.Subscription) (cursor string, moved, lost bool, err error) {
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
	// Its new progress is stored after an attempt at the gap envelope.
	if err := p.storeOpen(ctx, r); err != nil {
		return "", false, false, err
	}
	oldest, _ := t.Bounds()
	r.Progress = store.Progress{Epoch: t.Epoch(), Base: oldest - 1, Open: true}
	return "", true, true, nil
}

// storeOpen stores a record of the part as open, so that the mark of its log does not pass an entry that it must
// get.
func (p *part) storeOpen(ctx context.Context, r *store.Subscription) error {
	p.w.mu.Lock()
	log := p.log
	p.w.mu.Unlock()
	if log == nil { // a feed has no mark
		return nil
	}
	return log.StoreOpen(ctx, r)
}

// ended converts the error of a fenced write to errPartClosed.
func (p *part) ended(err error) error {
	if p.lost(err) {
		return errPartClosed
	}
	return err
}

// leaveToOthers leaves a record to builds that can read it.
func (w *Subscriptions) leaveToOthers(ctx context.Context, p *part, r *store.Subscription) error {
	if err := p.storeOpen(ctx, r); err != nil {
		return p.ended(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.left[r.ID] = r.Schema
	return nil
}

// forged reports whether the fields of a record that make up its id were changed, such as the URL, for which its
// secrets would then sign. Such a record is skipped and not changed.
func (w *Subscriptions) forged(ctx context.Context, r *store.Subscription) bool {
	canonical, err := wire.Canonical(r.Arguments)
	if err == nil && wire.SubscriptionID(wire.ModeWebhook, r.Principal, r.URL, r.Event, canonical) == r.ID {
		return false
	}
	w.o.Log.Internal(ctx, "restoring webhook subscription "+r.ID, errForged)
	return true
}

var errForged = errors.New("its principal, URL, event type or arguments do not match its id")

// endRecord ends a stored subscription that is not live, with an envelope if there is a reason.
func (w *Subscriptions) endRecord(ctx context.Context, p *part, r *store.Subscription, reason *events.Error) error {
	if reason == nil {
		return p.deleteLapsed(ctx, r)
	}
	if err := p.owned.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
		return err
	}
	r.Progress = store.Progress{}
	h, err := w.engine.Add(ctx, delivery.Entry{Subscription: *r, Reader: endedReader{}, Shard: p.shard})
	if err != nil {
		return nil // it has ended anyway
	}
	h.Terminate(*fault.Object(reason, wire.Dialect(r.Codes)))
	return nil
}
