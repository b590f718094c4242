package mcpe

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A job delivers the queue of one channel of a subscription on schedule. Adapter.mu guards its fields, except key and
// channel, which are immutable.
type job struct {
	channel, key string
	next         time.Time // zero: no more runs
	due          bool      // a run is in progress, or waits for a peer or a rate limit
	handled      uint64    // last sequence passed to the handler
	retry        time.Time // when to retry a run that waits for a rate limit or the store
	done         bool      // scheduled: delivered
	again        bool      // its queue must be checked
}

// jobRecord is the stored state of a job.
type jobRecord struct {
	Due     bool   `json:"due,omitempty"`
	Handled uint64 `json:"handled,omitempty"`
	Done    bool   `json:"done,omitempty"`
}

// row returns the job's row in the store. The caller holds a.mu.
func (j *job) row(s *subscription) engine.Schedule {
	return engine.Schedule{ID: j.key, Owner: s.owner.principal, NextRun: j.next, Record: encode(&jobRecord{j.due, j.handled, j.done})}
}

// load restores the job's state from the store. If its time has passed, the job is due now. A single run replaces all
// missed runs (MCPE-DEL-6).
func (j *job) load(row engine.Schedule) {
	var r jobRecord
	if json.Unmarshal(row.Record, &r) == nil {
		j.due, j.handled, j.done = r.Due, r.Handled, r.Done
	}
	j.next = row.NextRun
}

// armLocked sets the subscription's timer to the next run, retry or expiry. The caller holds a.mu.
func (a *Adapter) armLocked(s *subscription) {
	s.stopTimer()
	if a.ending || s.gone || s.status == wire.MCPEExpired || !s.revealed {
		return
	}
	next := s.expires
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if s.status == wire.MCPEActive {
		for _, j := range s.jobs {
			earlier(j.next)
			earlier(j.retry)
		}
	}
	if next.IsZero() {
		return
	}
	wait := max(time.Until(next), 0)
	// A timer measures elapsed time but the schedule uses the wall clock, so check at least every
	// maxTimer.
	s.timer = time.AfterFunc(min(wait, maxTimer), func() { a.runInBackground(func() { a.handleTimer(s) }) })
}

// handleTimer runs a subscription's due jobs, or expires the subscription if its time has come.
func (a *Adapter) handleTimer(s *subscription) {
	now := time.Now()
	a.mu.Lock()
	if a.ending || s.gone || s.status == wire.MCPEExpired {
		a.mu.Unlock()
		return
	}
	expired := !s.expires.IsZero() && !now.Before(s.expires)
	var run []*job
	var rows []engine.Schedule
	if s.status == wire.MCPEActive && !expired {
		for _, j := range s.jobs {
			if !j.retry.IsZero() && !now.Before(j.retry) {
				j.retry = time.Time{}
				run = append(run, j)
			}
			if j.next.IsZero() || now.Before(j.next) {
				continue
			}
			j.due, j.next = true, time.Time{}
			if j.channel == wire.MCPECron {
				j.next = s.plan.cron.Next(now, s.plan.zone)
			}
			rows = append(rows, j.row(s))
			run = append(run, j)
		}
	}
	a.armLocked(s)
	a.mu.Unlock()
	if expired {
		a.expire(s)
		return
	}
	a.saveOrLog("storing the next run", s, rows, nil)
	for _, j := range run {
		a.deliver(s, j)
	}
}

// deliver sends the queue of a job to the client and the handler, in batches, oldest first. Events that no peer accepts
// remain in the queue (MCPE-NOTE-4, MCPE-DEL-2), as do accepted events that could not be written. Written and flushed
// events are removed from the queue, although they can still be lost if the peer fails.
//
// Only one goroutine at a time delivers for a subscription. A concurrent call hands its job to that goroutine.
func (a *Adapter) deliver(s *subscription, j *job) {
	a.mu.Lock()
	j.again = true
	if s.delivering {
		a.mu.Unlock()
		return
	}
	s.delivering = true
	for {
		j = nil
		for _, other := range s.jobs {
			if other.again {
				j = other
			}
		}
		if j == nil {
			s.delivering = false
			a.mu.Unlock()
			return
		}
		j.again = false
		a.mu.Unlock()
		a.deliverQueue(s, j)
		a.mu.Lock()
	}
}

func (a *Adapter) deliverQueue(s *subscription, j *job) {
	for {
		a.mu.Lock()
		if a.ending || s.gone || s.status != wire.MCPEActive || s.jobs[j.channel] != j || !j.due {
			a.mu.Unlock()
			return
		}
		limit, aggregate := defaultBatch, true
		if c := s.plan.wire.CronSchedule; j.channel == wire.MCPECron {
			limit, aggregate = c.MaxEventsPerDelivery, c.AggregateEvents
		} else {
			limit, aggregate = a.o.MaxBatch, s.plan.wire.ScheduledDelivery.AggregateEvents
		}
		a.mu.Unlock()
		ctx, cancel := context.WithTimeout(a.ctx, storeTimeout)
		queue, err := a.storeOf(s.owner).Queue(ctx, j.key, 0, limit)
		cancel()
		if err != nil {
			a.logError("reading the queue", s, err)
			a.scheduleRetry(s, j, retryDelivery)
			return
		}
		if len(queue) == 0 {
			a.finish(s, j)
			return
		}
		all, batch := queue, decodeQueue(queue)
		refused, err := a.refusedTypes(a.ctx, s, batch)
		if err != nil {
			if !errors.Is(err, errUnregistered) {
				a.logError("asking whether the client may receive the queue", s, err)
			}
			a.scheduleRetry(s, j, retryDelivery)
			return
		}
		queue, batch = withoutTypes(queue, batch, refused)
		a.handleBatch(s, j, queue, batch, aggregate)
		receipts, wait := a.notifyBatch(s, batch, aggregate)
		sent := 0
		for sent < len(receipts) && receipts[sent].wait(a.ctx) {
			sent++
		}
		settled := len(all) // with the refused events before the first that was not sent
		if sent < len(batch) {
			settled = slices.IndexFunc(all, func(q engine.Queued) bool { return q.Sequence == queue[sent].Sequence })
		}
		if settled > 0 {
			if err := a.removeDelivered(s, j, all[settled-1].Sequence); err != nil {
				a.logError("settling the queue", s, err)
				a.scheduleRetry(s, j, retryDelivery)
				return
			}
			a.tell.drop(droppedRefused, settled-sent)
		}
		if sent < len(batch) {
			if sent < len(receipts) { // accepted but not written: the peer is gone or was disconnected
				a.mu.Lock()
				wait = max(wait, a.retryDelayLocked(s))
				a.mu.Unlock()
			}
			if wait > 0 {
				a.scheduleRetry(s, j, wait)
			}
			return
		}
	}
}

func decodeQueue(queue []engine.Queued) []mcpewire.Event {
	batch := make([]mcpewire.Event, len(queue))
	for i, q := range queue {
		_ = json.Unmarshal(q.Body, &batch[i]) // written by this package
	}
	return batch
}

// handleBatch passes each new event of a batch to the handler once, regardless of the result of the notification
// (MCPE-HAN-4).
func (a *Adapter) handleBatch(s *subscription, j *job, queue []engine.Queued, batch []mcpewire.Event, aggregate bool) {
	a.mu.Lock()
	if s.handler == nil || len(queue) == 0 || queue[len(queue)-1].Sequence <= j.handled {
		a.mu.Unlock()
		return
	}
	fresh := 0
	for fresh < len(queue) && queue[fresh].Sequence <= j.handled {
		fresh++
	}
	j.handled = queue[len(queue)-1].Sequence
	row := j.row(s)
	a.mu.Unlock()
	// Store the row before the handler starts. After a crash, it is better to skip the handler than to run it twice.
	a.saveOrLog("storing what was handled", s, rowsOf(row), nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if aggregate {
		a.handleLocked(s, handlerCall{events: batch[fresh:], batch: true})
		return
	}
	for i := fresh; i < len(batch); i++ {
		a.handleLocked(s, handlerCall{events: batch[i : i+1]})
	}
}

// removeDelivered removes delivered events from the queue.
func (a *Adapter) removeDelivered(s *subscription, j *job, upTo uint64) error {
	a.mu.Lock()
	row := j.row(s)
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), storeTimeout)
	defer cancel()
	return a.storeOf(s.owner).Settle(ctx, row, upTo)
}

// finish completes a run whose queue is empty.
func (a *Adapter) finish(s *subscription, j *job) {
	a.mu.Lock()
	j.due, j.retry = false, time.Time{}
	expire := false
	if j.channel == wire.MCPEScheduled {
		j.done = true
		expire = s.plan.wire.ScheduledDelivery.AutoExpire
	}
	row := j.row(s)
	a.mu.Unlock()
	a.saveOrLog("storing the end of a run", s, rowsOf(row), nil)
	if expire {
		a.expire(s)
	}
}

// scheduleRetry schedules a retry of a failed run.
func (a *Adapter) scheduleRetry(s *subscription, j *job, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.retry = time.Now().Add(after)
	a.armLocked(s)
}

// expire ends a subscription permanently and notifies the client (MCPE-DEL-3, MCPE-DEL-4).
func (a *Adapter) expire(s *subscription) {
	a.mu.Lock()
	if s.gone || s.status == wire.MCPEExpired {
		a.mu.Unlock()
		return
	}
	now := time.Now()
	s.status, s.updated = wire.MCPEExpired, now
	if s.expires.IsZero() || s.expires.After(now) {
		s.expires = now
	}
	s.stopTimer()
	s.early = nil
	var drop []string
	for _, j := range s.jobs {
		drop = append(drop, j.key)
	}
	s.jobs = nil
	row := s.row()
	principal := s.owner.principal
	a.mu.Unlock()
	a.saveOrLog("storing the expiry", s, rowsOf(row), drop)
	a.mu.Lock()
	if !s.gone {
		a.notifyExpiredLocked(s) // it also stores the record, so the expiry must be stored before
	}
	a.mu.Unlock()
	a.runInBackground(func() { a.reconcile(a.ctx, principal, nil) })
}

// notifyExpiredLocked notifies the client of the expiry. If the client is disconnected, flushLocked calls it when the
// client reconnects. The caller holds a.mu.
func (a *Adapter) notifyExpiredLocked(s *subscription) {
	if !s.revealed || s.told || s.telling {
		return
	}
	r := newReceipt()
	if !a.notifyLocked(s, wire.MCPENotificationExpired, &mcpewire.ExpiredParams{SubscriptionID: s.id, ExpiredAt: stamp(s.expires)}, r) {
		return
	}
	s.telling = true
	a.runInBackgroundLocked(func() {
		told := r.wait(a.ctx)
		a.mu.Lock()
		s.telling = false
		if s.told = told; !told && a.ctx.Err() == nil {
			a.notifyExpiredLocked(s) // the client may have reconnected in the meantime
		}
		if !told || s.gone {
			a.mu.Unlock()
			return
		}
		row := s.row()
		a.mu.Unlock()
		a.saveOrLog("storing the expiry", s, rowsOf(row), nil)
	})
}

// saveOrLog saves rows of a subscription and logs the error.
func (a *Adapter) saveOrLog(doing string, s *subscription, put []engine.Schedule, drop []string) {
	if err := a.save(a.ctx, s.owner, put, drop); err != nil {
		a.logError(doing, s, err)
	}
}

func (a *Adapter) logError(doing string, s *subscription, err error) {
	if a.ctx.Err() == nil {
		a.o.Logger.Error("mcpe: "+doing+" failed", "subscription", s.id, "error", err)
	}
}
