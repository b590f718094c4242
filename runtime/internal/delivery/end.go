package delivery

import (
	"context"
	"iter"
	"time"
)

// tick runs when the timer fires. It reports expired subscriptions, ends failed ones and queues handles with due work.
func (e *Engine) tick() {
	var expired, failed []*Handle
	e.mu.Lock()
	e.due.armed = 0
	if e.closing {
		e.mu.Unlock()
		return
	}
	now := e.now()
	clock := e.clock()
	for h := e.due.due(clock); h != nil; h = e.due.due(clock) {
		switch {
		case !h.hasEnded() && h.expired(now):
			h.overdue = true
			expired = append(expired, h)
		case !h.hasEnded() && h.health.suspended && h.failedTooLong(now):
			h.giveUp()
			failed = append(failed, h)
		default:
			e.schedule(h, now)
		}
	}
	e.due.arm()
	e.unlock()
	for _, h := range expired {
		e.ended(h, Expired)
	}
	for _, h := range failed {
		e.ended(h, Failed)
	}
}

func (e *Engine) ended(h *Handle, why End) {
	switch {
	case e.o.Ended != nil:
		e.o.Ended(h, why)
	case why == Expired:
		h.Remove()
	}
}

// Shutdown stops delivering, waits for attempts in flight and stores progress. Unsettled occurrences are delivered
// after the next start. If ctx ends first, Shutdown cancels the attempts and returns the context's error. It is
// idempotent (SRV-6).
func (e *Engine) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	if !e.closing {
		e.closing = true
		e.due.stop()
		e.saver.stop()
		e.trimmer.stop()
		e.sampler.stop()
		if e.workers == 0 {
			close(e.idle)
		}
		e.touchFeeds(e.all())
	}
	e.mu.Unlock()
	err := conclude(ctx, e.idle, e.cutOff, e.Flush)
	e.abort()
	e.trimmer.wait()
	e.sampler.wait()
	e.closeAll()
	return err
}

// touchFeeds schedules a write for each handle without a log, because its feed may have moved the cursor. The engine's
// lock must be held.
func (e *Engine) touchFeeds(handles iter.Seq[*Handle]) {
	for h := range handles {
		if h.log == nil {
			e.touch(h)
		}
	}
}

// graceTime limits how long a shutdown waits for canceled attempts, and then for the store, after its context ends.
const graceTime = time.Second

// conclude waits until idle is closed and then stores progress. If ctx ends first, it cancels the attempts, still tries
// to store progress and returns the context's error.
func conclude(ctx context.Context, idle <-chan struct{}, cutOff func(), save func(context.Context) error) error {
	select {
	case <-idle:
		return save(ctx)
	case <-ctx.Done():
	}
	cutOff()
	select {
	case <-idle:
	case <-time.After(graceTime):
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	_ = save(late)
	return ctx.Err()
}

// cutOff cancels all attempts in flight.
func (e *Engine) cutOff() {
	e.abort()
	e.mu.Lock()
	defer e.mu.Unlock()
	for h := range e.all() {
		h.cancel()
	}
}

func (e *Engine) closeAll() {
	e.mu.Lock()
	var readers []Reader
	for s := range e.shards {
		for h := range s.handles {
			if h.phase < closed {
				h.phase = closed
				readers = append(readers, h.reader)
			}
		}
		clear(s.handles)
	}
	clear(e.hosts)
	clear(e.tenants)
	clear(e.guests)
	e.mu.Unlock()
	for _, r := range readers {
		r.Close()
	}
	e.metrics.close()
}
