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
	// restorePause is the first wait before another attempt at restoring what could not be restored.
	restorePause    = time.Second
	maxRestorePause = time.Minute
	// loadPage is how many records are read at once.
	loadPage = 500
	// restorers is how many records of a shard are taken up at once: the author's hooks are asked.
	restorers = 8
	// readers is how many shards are read at once.
	readers = 4
)

// errPartClosed says that the shard is not this process's any more.
var errPartClosed = errors.New("the shard has another owner")

// Serve takes up the subscriptions of an event type in a process that is the only one to serve it, whose tenure
// lasts as long as the process does: with the type's registration, in the background where there are some, since
// hooks of the author may take their time. restored is called when that is done. A type that is registered again
// has its part already.
func (w *Subscriptions) Serve(ctx context.Context, t Tenure, et eventtype.Type, restored func()) error {
	w.mu.Lock()
	p := w.parts[t.Hold().Shard]
	w.mu.Unlock()
	again := p != nil && p.et == et
	if p != nil && !again { // its occurrences come from elsewhere now
		p.shard.Drop()
		p.forget()
	}
	if !again {
		if p = w.newPart(t, et); p == nil {
			return delivery.ErrClosed
		}
	}
	if err := p.begin(ctx, false); err != nil {
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
		return nil
	}
	w.restoring.Add(1)
	tried := sync.OnceFunc(func() { w.restoring.Add(-1) })
	if !w.background(func() { p.restore(tried) }) {
		tried()
	}
	return nil
}

// after has f called when the part's records are restored, or now.
func (p *part) after(restored func()) {
	p.w.mu.Lock()
	waits := p.touched != nil
	if waits {
		p.restored = append(p.restored, restored)
	}
	p.w.mu.Unlock()
	if !waits {
		restored()
	}
}

// waits reports whether the record, which is not live, is still to be taken up.
func (p *part) waits(r *store.Subscription) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	_, aside := p.left[r.ID]
	return p.touched != nil && !aside
}

// restore takes up the records of the part, and goes on until all are live, have ended or are left to
// other builds. tried is called when each was tried once, or will not be.
func (p *part) restore(tried func()) {
	defer tried()
	ctx := p.tenure.Context()
	var records []store.Subscription
	done := p.persist(ctx, "reading the subscriptions of "+p.tenure.Hold().Shard.String(), func() (err error) {
		records, err = p.read(ctx)
		return p.ended(err)
	}) && p.persist(ctx, "restoring webhook subscriptions", func() (err error) {
		records, err = p.takeUpAll(ctx, records)
		tried()
		return err
	}) && p.persist(ctx, "doing what operators have ordered", func() error {
		return p.orders.Finish(ctx, func(h *Live) bool { return h.part == p })
	})
	if done {
		p.conclude(ctx)
	}
}

// conclude lets what is told of records reach those that are live: all have been taken up.
func (p *part) conclude(ctx context.Context) {
	w := p.w
	w.mu.Lock()
	touched, log, live, left, restored := p.touched, p.log, len(p.live), len(p.left), p.restored
	p.touched, p.restored, p.missed = nil, nil, missed{}
	w.mu.Unlock()
	if live+left > 0 {
		w.o.Log.Logger.LogAttrs(ctx, slog.LevelInfo, "mcp events: webhook subscriptions of a shard go on in this process",
			slog.String("shard", p.tenure.Hold().Shard.String()), slog.Int("live", live), slog.Int("left", left))
	}
	if log != nil {
		log.Ready()
	}
	for id := range touched {
		w.Changed(id, p.tenure.Hold().Shard)
	}
	p.mark(true)
	w.Review(p.et)
	for _, f := range restored {
		f()
	}
}

// persist tries until it succeeds, with pauses, and logs failures; false when the part is over.
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
		case <-p.tenure.Draining():
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
	return records, p.begin(ctx, len(records) == 0)
}

// begin opens the part, unless it is open, and its log, which reads the mark. From then on the part learns of each change
// of its records. none: it has no records.
func (p *part) begin(ctx context.Context, none bool) error {
	w := p.w
	w.mu.Lock()
	log, orders, open := p.log, p.orders, p.open
	w.mu.Unlock()
	var err error
	if !open {
		if orders, err = w.cluster.Orders(ctx, p.owned, none); err != nil {
			return err
		}
	}
	if d := p.et.Current(); log == nil && d != nil && d.Webhooks() && d.Check() == nil && !p.et.Topic().Apart() {
		// The shard may have become free because new epochs were begun: what is delivered is of the log as it is since.
		if err := p.et.Topic().Renew(ctx); err != nil {
			return err
		}
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
	p.log, p.orders, p.open = log, orders, true
	return nil
}

// takeUpAll takes up records, several at once, and returns those that have to wait.
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
		case <-p.tenure.Draining():
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

// takeUpOne takes up a record that was read a while ago.
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
		if err != nil {
			return err
		}
		if !ok || !p.holds(&now) {
			return nil
		}
		return w.takeUpRecord(ctx, p, &now)
	}
	return w.takeUpRecord(ctx, p, &r)
}

// holds reports whether the record is of the part.
func (p *part) holds(r *store.Subscription) bool {
	return p.tenure.Hold().Shard == inShard(r)
}

// takeUpRecord makes a stored subscription live. OnSubscribe comes before its delivery goes on
// (REP-17); what would end a live subscription ends it now, but a build that does not understand it
// leaves it to others (REP-16). The caller holds the key.
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
	err := errPartClosed // it is being given away
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
	if e, err := p.ends(ctx, r); err != nil {
		return err
	} else if e != nil {
		return p.ended(w.endRecord(ctx, p, r, e))
	}
	sub := identityOf(r)
	sub.Restored = true
	ctx = hook.WithPrincipal(ctx, r.Principal)
	if e := w.host.Refused(ctx, r.Principal, a); e != nil {
		return p.ended(w.endRecord(ctx, p, r, e))
	}
	if err := w.host.Join(ctx, sub, a); err != nil {
		var refusal *events.Error
		if errors.As(err, &refusal) && refusal.Kind != wire.Internal {
			return p.ended(w.endRecord(ctx, p, r, refusal))
		}
		return err
	}
	h, err := w.startStored(ctx, p, a, *r)
	if err != nil {
		w.host.Release(sub, a)
		return err
	}
	// What was ordered since it was asked for the last time was done without this one.
	e, err := p.ends(ctx, r)
	switch {
	case err != nil && w.delist(h):
		h.Handle.Detach()
		w.host.Release(sub, a)
	case e != nil:
		w.End(h, e)
	default:
		if p.hasGap(r) {
			w.Gap(h)
		}
		h.Handle.HoldUntil(r.NotBefore)
	}
	return err
}

// startStored starts a subscription whose record is stored. Nothing is delivered before the caller says so. It
// holds the key and is a member.
func (w *Subscriptions) startStored(ctx context.Context, p *part, a eventtype.Arguments, r store.Subscription) (*Live, error) {
	if r.RefreshedAt.After(r.Health.SuspendedAt) {
		r.Health.Suspended, r.Health.SuspendedAt = false, time.Time{} // its owner did not get to know (SUB-5)
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

// resume makes the record's progress that of the log as it is now, which others may append to: what is known of it
// here may be old. moved reports that it is not the progress that is stored.
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

// storeOpen stores a record of the part as open, so that the mark of its log passes nothing that it is to get.
func (p *part) storeOpen(ctx context.Context, r *store.Subscription) error {
	p.w.mu.Lock()
	log := p.log
	p.w.mu.Unlock()
	if log == nil { // it has no mark
		return nil
	}
	return log.StoreOpen(ctx, r)
}

// ended makes a fenced ending one of the part.
func (p *part) ended(err error) error {
	if p.lost(err) {
		return errPartClosed
	}
	return err
}

// leaveToOthers notes that a record is for builds that understand it.
func (w *Subscriptions) leaveToOthers(ctx context.Context, p *part, r *store.Subscription) error {
	if err := p.storeOpen(ctx, r); err != nil {
		return p.ended(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.left[r.ID] = r.Schema
	return nil
}

// forged tells that somebody has changed what a record's id is made of, such as the URL that is delivered to, and
// that its secrets would then sign for: it is left out, and stays as it is.
func (w *Subscriptions) forged(ctx context.Context, r *store.Subscription) bool {
	canonical, err := wire.Canonical(r.Arguments)
	if err == nil && wire.SubscriptionID(wire.ModeWebhook, r.Principal, r.URL, r.Event, canonical) == r.ID {
		return false
	}
	w.o.Log.Internal(ctx, "taking up webhook subscription "+r.ID, errForged)
	return true
}

var errForged = errors.New("its principal, URL, event type or arguments do not match its id")

// endRecord ends a subscription that is stored and not live, with an envelope when there is a
// reason to tell.
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
		return nil // it has ended all the same
	}
	h.Terminate(*fault.Object(reason, wire.Dialect(r.Codes)))
	return nil
}
