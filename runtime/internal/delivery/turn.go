package delivery

import (
	"time"

	"golang.org/x/time/rate"
)

// Turns are of two classes, so that what is known to answer soon is not held up by what hangs: the
// slow class has at most half of a host's places and half of the workers.
const (
	quick = iota // the last attempt of the subscription was answered soon
	slow         // it was not, or there was none
	classes
)

// soon is how quickly a subscription's endpoint has to answer to be quick.
const soon = time.Second

// A host is one destination, a host and port, with the subscriptions that wait for a turn.
type host struct {
	e       *Engine
	name    string
	handles int
	active  int // turns under way
	slow    int // those of the slow class
	lines   [classes]struct {
		ready  []*Handle
		inRing bool
	}
	limiter *rate.Limiter
}

func (e *Engine) hostOf(name string) *host {
	ho := e.hosts[name]
	if ho == nil {
		ho = &host{e: e, name: name}
		e.hosts[name] = ho
	}
	return ho
}

func (ho *host) leave() {
	if ho.handles--; ho.handles == 0 {
		delete(ho.e.hosts, ho.name)
	}
}

// free reports whether another turn of that class may begin.
func (ho *host) free(class int) bool {
	return ho.active < ho.e.o.PerHost && (class == quick || ho.slow < half(ho.e.o.PerHost))
}

func half(n int) int { return max(1, n/2) }

// line puts the host in line for its turns.
func (ho *host) line() {
	for class := range ho.lines {
		if l := &ho.lines[class]; !l.inRing && len(l.ready) > 0 && ho.free(class) {
			l.inRing = true
			ho.e.rings[class].push(ho)
		}
	}
}

// class is that of the handle's next turn.
func (h *Handle) class() int {
	if h.proven {
		return quick
	}
	return slow
}

// A queue is a first-in-first-out list that reuses its memory.
type queue struct {
	hosts []*host
	head  int
}

func (q *queue) push(ho *host) { q.hosts = append(q.hosts, ho) }

func (q *queue) empty() bool { return q.head == len(q.hosts) }

func (q *queue) pop() *host {
	ho := q.hosts[q.head]
	q.hosts[q.head] = nil
	if q.head++; q.head == len(q.hosts) {
		q.hosts, q.head = q.hosts[:0], 0
	} else if q.head >= 64 && 2*q.head >= len(q.hosts) {
		n := copy(q.hosts, q.hosts[q.head:])
		clear(q.hosts[n:])
		q.hosts, q.head = q.hosts[:n], 0
	}
	return ho
}

// A job is what one turn is about: one of the three.
type job struct {
	h       *Handle
	read    bool
	event   *unsettled
	control *control
	class   int
	shard   *Shard // that the turn is counted for
}

func startWidth(limit int) int { return min(limit, 2) }

// job finds what h could do now, if anything.
func (h *Handle) job(now time.Time) (j job, ok bool) {
	j.h = h
	if h.shard.closing {
		return j, false
	}
	if !h.gone() && (h.stopped() || h.phase == stopping || h.expired(now)) || instantOf(now) < max(h.notUntil, h.held) {
		return j, false
	}
	if h.inFlight < h.width {
		for _, c := range h.controls {
			if !c.busy && !now.Before(c.due) {
				j.control = c
				return j, true
			}
		}
	}
	if h.gone() {
		return j, false
	}
	if h.inFlight < h.width {
		for i, u := range h.window {
			if !u.busy && !now.Before(u.due) {
				j.event = u
				return j, true
			}
			if i == 0 && h.e.o.PerSubscription == 1 {
				break // in order
			}
		}
		if h.mayRead() && instantOf(now) >= h.intake.notUntil {
			j.read = true
			return j, true
		}
	}
	return j, false
}

// mayRead reports whether there is reason and room to read on.
func (h *Handle) mayRead() bool {
	return h.intake.wants() && len(h.window) < h.e.o.MaxUnsettled &&
		(h.e.o.PerSubscription > 1 || len(h.window) == 0)
}

// nextDue is the first time at which something unsettled is tried again; zero for none.
func (h *Handle) nextDue() time.Time {
	var first time.Time
	for i, u := range h.window {
		if !u.busy && (first.IsZero() || u.due.Before(first)) {
			first = u.due
		}
		if i == 0 && h.e.o.PerSubscription == 1 {
			break
		}
	}
	return first
}

// nextTime is when to look at h again although nothing happens; 0 for never.
func (h *Handle) nextTime(now time.Time) instant {
	next := instant(0)
	sooner := func(t instant) {
		t = max(t, h.notUntil, h.held)
		if t <= instantOf(now) {
			return // waits for a place, not for a time
		}
		if next == 0 || t < next {
			next = t
		}
	}
	for _, c := range h.controls {
		if !c.busy && (!h.stopped() || h.gone()) {
			sooner(instantOf(c.due))
		}
	}
	if h.phase > delivering || h.overdue {
		return next
	}
	if h.stopped() {
		if h.expires == 0 && h.health.suspended {
			next = h.failing + instant(h.e.o.NoExpiryRemoval)
		}
	} else {
		if len(h.window) > 0 {
			sooner(instantOf(h.nextDue()))
		}
		if h.mayRead() {
			sooner(h.intake.notUntil)
		}
	}
	if h.expires != 0 && (next == 0 || h.expires < next) {
		next = h.expires
	}
	return next
}

// schedule puts h in line when it has something to do, and sets when to look at it again.
func (e *Engine) schedule(h *Handle, now time.Time) {
	if e.closing || h.shard.closing {
		return
	}
	if !h.queued {
		if _, ok := h.job(now); ok && e.admit(h, now) {
			h.queued = true
			l := &h.host.lines[h.class()]
			l.ready = append(l.ready, h)
			h.host.line()
			e.spawn()
		}
	}
	e.due.set(h, h.nextTime(now))
}

func (e *Engine) scheduleNow(h *Handle) { e.schedule(h, e.now()) }

// admit asks the rate limits for one attempt; false when it has to wait for its time (HOOK-9).
func (e *Engine) admit(h *Handle, now time.Time) bool {
	if h.granted || e.o.SubscriptionLimit.Rate <= 0 && e.o.HostLimit.Rate <= 0 {
		return true
	}
	if j, _ := h.job(now); j.read {
		return true
	}
	h.granted = true
	at := now
	if l := e.o.SubscriptionLimit; l.Rate > 0 {
		if h.limiter == nil {
			h.limiter = rate.NewLimiter(l.Rate, l.Burst)
		}
		at = now.Add(h.limiter.ReserveN(now, 1).DelayFrom(now))
	}
	if l := e.o.HostLimit; l.Rate > 0 {
		if h.host.limiter == nil {
			h.host.limiter = rate.NewLimiter(l.Rate, l.Burst)
		}
		if t := now.Add(h.host.limiter.ReserveN(now, 1).DelayFrom(now)); t.After(at) {
			at = t
		}
	}
	if at.After(now) {
		h.notUntil = instantOf(at)
		return false
	}
	return true
}

// spawn adds a worker when there is a turn to take and room for one.
func (e *Engine) spawn() {
	if e.workers < e.o.Workers && e.hasTurn() {
		e.workers++
		go e.work()
	}
}

func (e *Engine) hasTurn() bool {
	return !e.closing && (!e.rings[quick].empty() || e.hasSlowTurn())
}

func (e *Engine) hasSlowTurn() bool {
	return !e.rings[slow].empty() && e.slow < half(e.o.Workers)
}

// work takes turns until there are none.
func (e *Engine) work() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.hasTurn() {
		j, ok := e.next()
		if !ok {
			continue
		}
		e.mu.Unlock()
		e.run(j)
		e.mu.Lock()
		e.finish(j)
	}
	if e.workers--; e.workers == 0 && e.closing {
		close(e.idle)
	}
}

// next takes one turn: the next host's next subscription, of the two classes by turns.
func (e *Engine) next() (job, bool) {
	e.flip = !e.flip
	class := quick
	if e.rings[quick].empty() || e.flip && e.hasSlowTurn() {
		class = slow
	}
	ho := e.rings[class].pop()
	l := &ho.lines[class]
	l.inRing = false
	if len(l.ready) == 0 || !ho.free(class) {
		return job{}, false // comes back when a place is free
	}
	h := l.ready[0]
	l.ready[0] = nil
	if l.ready = l.ready[1:]; len(l.ready) == 0 {
		l.ready = nil
	}
	h.queued = false
	now := e.now()
	j, ok := h.job(now)
	if !ok {
		h.release()
		ho.line()
		return j, false
	}
	j.shard = h.shard
	j.shard.busy++
	ho.active++
	if j.class = class; class == slow {
		ho.slow++
		e.slow++
	}
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
	e.schedule(h, now) // another turn, if there is more to do
	ho.line()
	return j, true
}

func (e *Engine) run(j job) {
	switch {
	case j.read:
		e.read(j.h)
	case j.control != nil:
		e.sendControl(j.h, j.control)
	default:
		e.sendEvent(j.h, j.event)
	}
}

// finish gives back the places of a turn.
func (e *Engine) finish(j job) {
	h := j.h
	h.host.active--
	if j.class == slow {
		h.host.slow--
		e.slow--
	}
	if j.read {
		h.intake.reading = false
		if h.intake.parked {
			e.changed(h) // a write during the turn took it for busy
		}
	} else {
		h.inFlight--
		e.flying--
	}
	j.shard.end()
	e.scheduleNow(h)
	h.release()
	h.host.line()
	// A place at this host or in the slow class may let another worker go on.
	e.spawn()
}
