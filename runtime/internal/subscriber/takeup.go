package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

const (
	// restorers is how many records of a shard are taken up at once: the author's hooks are asked.
	restorers = 8
	// readers is how many shards are read at once.
	readers = 4
)

// errPartClosed says that the shard is not this process's any more.
var errPartClosed = errors.New("the shard has another owner")

// restore takes up the records of the part, and goes on until all are live, have ended or are left to
// other builds.
func (p *part) restore() {
	ctx := p.tenure.Context()
	var records []store.Subscription
	for pause := restorePause; ; pause = min(2*pause, maxRestorePause) {
		var err error
		if records, err = p.read(ctx); err == nil {
			break
		}
		if p.lost(err) || !p.again(ctx, "reading the subscriptions of "+p.tenure.Hold().Shard.String(), err, pause) {
			return
		}
	}
	for pause := restorePause; len(records) > 0; pause = min(2*pause, maxRestorePause) {
		var err error
		records, err = p.takeUpAll(ctx, records)
		if len(records) > 0 && !p.again(ctx, "restoring webhook subscriptions", err, pause) {
			return
		}
	}
	for pause := restorePause; ; pause = min(2*pause, maxRestorePause) {
		err := p.orders.Finish(ctx, func(h *Live) bool { return h.own != nil && h.own.part == p })
		if err == nil {
			break
		}
		if !p.again(ctx, "doing what operators have ordered", err, pause) {
			return
		}
	}
	w := p.w
	w.mu.Lock()
	touched, log, live, left := p.touched, p.log, len(p.live), len(p.left)
	p.touched = nil
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
}

// again logs a failure and waits; false when the part is over.
func (p *part) again(ctx context.Context, doing string, err error, pause time.Duration) bool {
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
		return true
	}
}

// read reads the records, then what of the log concerns them, and opens the part: what is stored
// from now on it hears of.
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
	orders, err := w.sharing.Orders(ctx, p.owned, len(records) == 0)
	if err != nil {
		return nil, err
	}
	var log *delivery.Log
	if d := p.et.Current(); d != nil && d.Check() == nil {
		if log, err = p.shard.OpenLog(ctx, p.et.Name(), p.et.Topic().Head); err != nil {
			return nil, err
		}
		w.follow(p.et, log)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.log, p.orders, p.open = log, orders, true
	return records, nil
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
	if h := w.Get(r.ID); h != nil && h.own.part == p {
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
		return w.takeUpRecord(ctx, p, &now, true)
	}
	return w.takeUpRecord(ctx, p, &r, false)
}

// holds reports whether the record is of the part.
func (p *part) holds(r *store.Subscription) bool {
	return p.tenure.Hold().Shard == store.Shard{Topic: r.Event, Number: r.Shard}
}

// takeUpRecord makes a stored subscription live. OnSubscribe comes before its delivery goes on
// (REP-17); what would end a live subscription ends it now, but a build that does not understand it
// leaves it to others (REP-16). late tells that the record may be newer than what was read of the log.
// The caller holds the key.
func (w *Subscriptions) takeUpRecord(ctx context.Context, p *part, r *store.Subscription, late bool) error {
	d := p.et.Current()
	if d == nil || !d.Webhooks() {
		return errPartClosed // it is being given away
	}
	if Lapsed(r, w.now()) {
		err := p.ended(w.endRecord(ctx, p, r, nil))
		if errors.Is(err, errAgain) {
			w.Changed(r.ID, inShard(r))
			return nil
		}
		return err
	}
	if e := w.sharing.Obsolete(r.Event, r.Schema); e != nil {
		return p.ended(w.endRecord(ctx, p, r, e))
	}
	a, err := reparse(d, r.Arguments)
	if err != nil {
		return w.leaveToOthers(ctx, p, r)
	}
	w.mu.Lock()
	orders := p.orders
	delete(p.left, r.ID)
	w.mu.Unlock()
	if e := orders.Ends(r); e != nil {
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
	from := stored
	if late {
		from = admitted
	}
	err = w.startStored(ctx, p, a, *r, from)
	if err != nil {
		w.host.Release(sub, a)
	}
	return err
}

// startStored starts a subscription whose record is stored. The caller holds the key and is a member.
func (w *Subscriptions) startStored(ctx context.Context, p *part, a Arguments, r store.Subscription,
	from origin) error {
	if r.RefreshedAt.After(r.Health.SuspendedAt) {
		r.Health.Suspended, r.Health.SuspendedAt = false, time.Time{} // its owner did not get to know (SUB-5)
	}
	cursor, from, lost, err := w.resume(ctx, p.et, a.Def, &r, from)
	if err != nil {
		return err
	}
	h, truncated, err := w.start(ctx, p.et, a, r, cursor, seat{part: p, from: from})
	if err != nil {
		if errors.Is(err, delivery.ErrClosed) {
			return errPartClosed
		}
		return err
	}
	if lost || truncated {
		h.Handle.Gap()
	}
	return nil
}

// resume is takeUp where others append to the log too: what is known of it here may be old.
func (w *Subscriptions) resume(ctx context.Context, et EventType, d Definition, r *store.Subscription,
	from origin) (cursor string, now origin, lost bool, err error) {
	if d.Check() != nil {
		cursor = r.Progress.Upstream
		r.Progress = store.Progress{Upstream: cursor}
		return cursor, from, false, nil
	}
	t := et.Topic()
	if r.Progress.Epoch != t.Epoch() {
		if err := t.Renew(ctx); err != nil {
			return "", from, false, err
		}
	}
	head := t.Head()
	if r.Progress.Base > head {
		if head, err = t.Latest(ctx); err != nil {
			return "", from, false, err
		}
	}
	if r.Progress.Epoch == t.Epoch() && r.Progress.Base <= head {
		return "", from, false, nil
	}
	oldest, _ := t.Bounds()
	r.Progress = store.Progress{Epoch: t.Epoch(), Base: oldest - 1}
	return "", moved, true, nil
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
	w.mu.Lock()
	log := p.log
	w.mu.Unlock()
	if log != nil {
		if err := log.Leave(ctx, *r); err != nil {
			return p.ended(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.left[r.ID] = r.Schema
	return nil
}
