package delivery

import (
	"context"
	"time"
)

// tick is what the timer does: it ends what has expired and puts in line what is due.
func (e *Engine) tick() {
	var expired, failed []*Handle
	e.mu.Lock()
	e.due.armed = 0
	if e.closing {
		e.mu.Unlock()
		return
	}
	now := e.now()
	for h := e.due.due(instantOf(now)); h != nil; h = e.due.due(instantOf(now)) {
		switch {
		case !h.gone() && h.expired(now):
			h.overdue = true
			expired = append(expired, h)
		case !h.gone() && h.health.suspended && h.hopeless(now):
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

// Shutdown stops delivering, lets attempts under way finish and stores progress; whatever is
// unsettled is delivered after the next start. When ctx ends first, attempts are cut off and its
// error is returned. It is idempotent (SRV-6).
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
		for s := range e.shards {
			for h := range s.handles {
				if h.log == nil {
					e.touch(h) // its cursor has moved with the feed
				}
			}
		}
	}
	e.mu.Unlock()
	var err error
	select {
	case <-e.idle:
	case <-ctx.Done():
		err = ctx.Err()
		e.cutOff()
		select {
		case <-e.idle:
		case <-time.After(graceTime):
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		defer cancel()
	}
	if flushErr := e.Flush(ctx); err == nil {
		err = flushErr
	}
	e.abort()
	e.trimmer.wait()
	e.sampler.wait()
	e.closeAll()
	return err
}

// graceTime is how long a shutdown whose time is over waits for attempts that were cut off, and
// for the store.
const graceTime = time.Second

// cutOff cancels everything that is under way.
func (e *Engine) cutOff() {
	e.abort()
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.shards {
		for h := range s.handles {
			h.cancel()
		}
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
	e.mu.Unlock()
	for _, r := range readers {
		r.Close()
	}
	e.metrics.close()
}
