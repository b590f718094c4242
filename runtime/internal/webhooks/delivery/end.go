package delivery

import (
	"context"
	"iter"
	"time"
)

// handleTimer is called when the timer fires. It reports expired subscriptions, ends failed subscriptions, and queues
// handles whose work is due.
func (e *Engine) handleTimer() {
	var expired, failed []*Handle
	e.mu.Lock()
	e.due.armed = 0
	if e.closing {
		e.mu.Unlock()
		return
	}
	now := e.now()
	clock := e.clock()
	for h := e.due.popDue(clock); h != nil; h = e.due.popDue(clock) {
		switch {
		case !h.hasEnded() && h.isExpired(now):
			h.overdue = true
			expired = append(expired, h)
		case !h.hasEnded() && h.isSuspended() && h.hasFailedTooLong(now):
			h.terminateFailing()
			failed = append(failed, h)
		default:
			e.schedule(h, now)
		}
	}
	e.due.resetTimer()
	e.unlock()
	for _, h := range expired {
		e.handleEnd(h, Expired)
	}
	for _, h := range failed {
		e.handleEnd(h, Failed)
	}
}

func (e *Engine) handleEnd(h *Handle, why End) {
	switch {
	case e.o.Ended != nil:
		e.o.Ended(h, why)
	case why == Expired:
		h.Remove()
	}
}

// Shutdown stops deliveries, waits for attempts in flight, and stores progress. Unsettled occurrences are delivered
// after the next start. If ctx is done first, Shutdown cancels the attempts and returns the context's error. It is
// idempotent (SRV-6).
func (e *Engine) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	if !e.closing {
		e.closing = true
		e.due.stop()
		e.saver.stop()
		e.trimmer.stop()
		if e.workers == 0 {
			close(e.idle)
		}
		e.touchFeeds(e.allHandles())
	}
	e.mu.Unlock()
	err := finishAttempts(ctx, e.idle, e.cancelAttempts, e.Flush)
	e.abort()
	e.trimmer.wait()
	e.closeAll()
	return err
}

// touchFeeds schedules a write of each handle without a log, because the cursor of its feed might have advanced. The
// engine's lock must be held.
func (e *Engine) touchFeeds(handles iter.Seq[*Handle]) {
	for h := range handles {
		if h.log == nil {
			e.scheduleWrite(h)
		}
	}
}

// graceTime is the maximum time that a shutdown waits for canceled attempts after its context is done, and then again
// for the store.
const graceTime = time.Second

// finishAttempts waits until idle is closed and then stores progress. If ctx ends first, it cancels the attempts, still
// tries to store progress and returns the context's error.
func finishAttempts(ctx context.Context, idle <-chan struct{}, cutOff func(), save func(context.Context) error) error {
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

// cancelAttempts cancels all attempts in flight.
func (e *Engine) cancelAttempts() {
	e.abort()
	e.mu.Lock()
	defer e.mu.Unlock()
	for h := range e.allHandles() {
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
	e.stopObserving()
}
