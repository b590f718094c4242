package delivery

import (
	"time"

	"golang.org/x/time/rate"
)

// A job is the work of one turn, which sends an event, sends a control envelope, or reads the log.
type job struct {
	h       *Handle
	read    bool
	event   *pendingEvent
	control *controlEnvelope
	class   class
	shard   *Shard // shard that the turn is counted in
}

func startWidth(limit int) int { return min(limit, 2) }

// nextJob returns the next due job of h. The result ok is false if no job is due.
func (h *Handle) nextJob(now time.Time) (j job, ok bool) {
	j.h = h
	if h.shard.closing {
		return j, false
	}
	clock := h.e.clock()
	if !h.hasEnded() && (h.isStopped() || h.phase == stopping || h.isExpired(now)) || clock < max(h.notUntil, h.held) {
		return j, false
	}
	if int(h.inFlight) < h.width {
		for _, c := range h.controls {
			if !c.busy && clock >= c.due {
				j.control = c
				return j, true
			}
		}
	}
	if h.hasEnded() {
		return j, false
	}
	if int(h.inFlight) < h.width {
		for i, u := range h.window {
			if !u.busy && clock >= u.due {
				j.event = u
				return j, true
			}
			if i == 0 && h.e.o.PerSubscription == 1 {
				break // keep the order
			}
		}
		if h.canRead() && clock >= h.intake.notUntil {
			j.read = true
			return j, true
		}
	}
	return j, false
}

// canRead reports whether h should read and has room for more occurrences.
func (h *Handle) canRead() bool {
	return h.intake.shouldRead() && len(h.window) < h.e.o.MaxUnsettled &&
		(h.e.o.PerSubscription > 1 || len(h.window) == 0)
}

// nextDue returns the moment of the earliest pending attempt. It returns 0 if no attempt is pending.
func (h *Handle) nextDue() moment {
	var first moment
	found := false
	for i, u := range h.window {
		if !u.busy && (!found || u.due < first) {
			first, found = u.due, true
		}
		if i == 0 && h.e.o.PerSubscription == 1 {
			break
		}
	}
	return first
}

// nextTime returns the moment at which h must be scheduled again if nothing else schedules it. It returns 0 for no such
// moment.
func (h *Handle) nextTime(now time.Time) moment {
	next, clock := moment(0), h.e.clock()
	sooner := func(t moment) {
		t = max(t, h.notUntil, h.held)
		if t <= clock {
			return // it waits for a place, not for a time
		}
		if next == 0 || t < next {
			next = t
		}
	}
	for _, c := range h.controls {
		if !c.busy && (!h.isStopped() || h.hasEnded()) {
			sooner(c.due)
		}
	}
	if h.phase > delivering || h.overdue {
		return next
	}
	if h.isStopped() {
		if h.expires == 0 && h.isSuspended() {
			next = h.e.momentOf(h.failures.failing.time().Add(h.e.o.NoExpiryRemoval), now)
		}
	} else {
		if len(h.window) > 0 {
			sooner(h.nextDue())
		}
		if h.canRead() {
			sooner(h.intake.notUntil)
		}
	}
	if h.expires != 0 {
		if at := h.e.momentOf(h.expires.time(), now); next == 0 || at < next {
			next = at
		}
	}
	return next
}

// schedule queues h if it has work to do, and sets its timer.
func (e *Engine) schedule(h *Handle, now time.Time) {
	if e.closing || h.shard.closing {
		return
	}
	if !h.queued {
		if _, ok := h.nextJob(now); ok && e.reserveAttempt(h, now) {
			e.enqueue(h)
			e.startWorker()
		}
	}
	e.due.schedule(h, h.nextTime(now))
}

func (e *Engine) scheduleNow(h *Handle) { e.schedule(h, e.now()) }

// reserveAttempt reserves one attempt under the rate limits. It returns false if h must wait (HOOK-9).
func (e *Engine) reserveAttempt(h *Handle, now time.Time) bool {
	if h.granted || e.o.SubscriptionLimit.Rate <= 0 && e.o.HostLimit.Rate <= 0 {
		return true
	}
	if j, _ := h.nextJob(now); j.read {
		return true
	}
	h.granted = true
	steady := time.Now() // limits use the monotonic clock
	var wait time.Duration
	if l := e.o.SubscriptionLimit; l.Rate > 0 {
		if h.limiter == nil {
			h.limiter = rate.NewLimiter(l.Rate, l.Burst)
		}
		wait = h.limiter.ReserveN(steady, 1).DelayFrom(steady)
	}
	if l := e.o.HostLimit; l.Rate > 0 {
		if h.guest.host.limiter == nil {
			h.guest.host.limiter = rate.NewLimiter(l.Rate, l.Burst)
		}
		wait = max(wait, h.guest.host.limiter.ReserveN(steady, 1).DelayFrom(steady))
	}
	if wait > 0 {
		h.notUntil = e.clock().plus(wait)
		return false
	}
	return true
}

// startWorker starts a worker if a turn is ready and the limit on workers has not been reached.
func (e *Engine) startWorker() {
	if e.workers < e.o.Workers && e.hasTurn() {
		e.workers++
		go e.runWorker()
	}
}

func (e *Engine) hasTurn() bool {
	for c := range classes {
		if e.needsWorker(c) {
			return !e.closing
		}
	}
	return false
}

// needsWorker reports whether a turn of the class is waiting for a worker and for nothing else.
func (e *Engine) needsWorker(c class) bool {
	return !e.rings[c].empty() && e.active.hasRoom(c, &e.inAll.all)
}

// runWorker executes turns until no turn is ready.
func (e *Engine) runWorker() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.hasTurn() {
		j, ok := e.nextJob()
		if !ok {
			continue
		}
		e.startWorker() // for a turn that is ready as well
		e.mu.Unlock()
		e.run(j)
		e.mu.Lock()
		e.releaseSlots(j)
	}
	if e.workers--; e.workers == 0 && e.closing {
		close(e.idle)
	}
}

// nextJob starts one turn. It rotates through the classes, the hosts of a class, the principals of a host and the
// subscriptions of a principal.
func (e *Engine) nextJob() (job, bool) {
	class := (e.class + 1) % classes
	for !e.needsWorker(class) {
		class = (class + 1) % classes
	}
	h := e.dequeue(class)
	if h == nil {
		return job{}, false
	}
	h.queued = false
	now := e.now()
	j, ok := h.nextJob(now)
	if !ok {
		h.release()
		e.enqueueGuest(h.guest, class)
		e.requeueWaiting(h.guest)
		return j, false
	}
	j.shard = h.shard
	j.shard.busy++
	j.class, e.class = class, class
	e.addTurns(h.guest, class, 1)
	switch {
	case j.read:
		h.intake.reading = true
	default:
		h.granted = false
		h.inFlight++
		e.flying++
		if j.control != nil {
			j.control.busy = true
		} else {
			j.event.busy = true
		}
	}
	e.schedule(h, now) // another turn, if there is more work
	e.enqueueGuest(h.guest, class)
	return j, true
}

func (e *Engine) run(j job) {
	switch {
	case j.read:
		e.readLog(j.h)
	case j.control != nil:
		e.sendControl(j.h, j.control)
	default:
		e.sendEvent(j.h, j.event)
	}
}

// releaseSlots releases the slots that a finished turn has used.
func (e *Engine) releaseSlots(j job) {
	h := j.h
	if j.read {
		h.intake.reading = false
		if h.intake.parked {
			e.markDirty(h) // a write during the turn skipped it as busy
		}
	} else {
		h.inFlight--
		e.flying--
	}
	j.shard.endTurn()
	e.scheduleNow(h)
	h.release()
	e.endTurn(h.guest, j.class)
}
