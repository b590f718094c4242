package delivery

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A class represents the expected response time of an endpoint. Slower classes have fewer slots, so hanging endpoints
// do not block other endpoints.
type class uint8

const (
	quick    class = iota // the last attempt or the challenge was answered in time
	unknown               // no attempt or challenge so far
	doubtful              // a slow endpoint of the guest casts doubt on this one, which has not been slow
	slow                  // the last attempt or the challenge was not answered in time
	classes
)

// quickLimit is the response time below which an endpoint belongs to the quick class.
const quickLimit = time.Second

// class returns the current class of the endpoint.
func (h *Handle) class() class {
	switch {
	case h.slow:
		return slow
	case h.seen == h.guest.breaks:
		return quick
	case h.seen == 0 && !h.guest.slow:
		return unknown
	}
	return doubtful
}

// restoreClass sets the class from the response time of a challenge, or else from the stored health. An endpoint that
// was quick in an earlier process is unknown: the first of many to be restored would otherwise take all slots.
func (h *Handle) restoreClass(stored store.Health, answered time.Duration) {
	if stored.Slow && answered == 0 {
		answered = quickLimit
	}
	h.slow = stored.Slow
	if answered > 0 {
		h.recordResponse(answered)
	}
}

// recordResponse records the response time of an attempt or a challenge. For an attempt without a response, it is
// quickLimit.
func (h *Handle) recordResponse(took time.Duration) {
	g, was := h.guest, h.class()
	if h.slow != (took >= quickLimit) {
		h.slow = !h.slow
		h.e.scheduleWrite(h)
	}
	g.slow = h.slow
	switch {
	case !h.slow:
		g.trust++
	case was == quick:
		g.breaks++
	}
	h.seen = g.breaks
}

// turnCounts contains the number of running turns of each class.
type turnCounts [classes]int32

// For each class, a bound limits the total number of running turns of that class and all slower classes.
type bound [classes]int32

// hasRoom reports whether another turn of the class can start.
func (t *turnCounts) hasRoom(of class, b *bound) bool {
	busy := int32(0)
	for c := slow; ; c-- {
		busy += t[c]
		if c <= of && busy >= b[c] {
			return false
		}
		if c == quick {
			return true
		}
	}
}

// bounds contains the bounds that divide the slots of a host or the workers of the engine. Each principal has
// a few basic turns, which start while there is room at all. Further turns start only while about half of the slots are
// free, so several principals with hanging endpoints leave the rest to the others.
type bounds struct {
	all   bound // of all principals
	more  bound // of all principals, for further turns
	alone bound // of the only principal
	basic int32 // basic turns of each principal
}

func boundsOf(n int) (b bounds) {
	part := func(eighths int) int32 { return int32(max(1, n*eighths/8)) }
	b.all = bound{part(8), part(8), part(5), part(4)}
	b.more = bound{part(4), part(3), part(3), part(2)}
	b.alone = bound{part(8), part(5), part(5), part(4)} // fewer for unknown endpoints, because others may follow
	b.basic = int32(max(1, n/64))
	return b
}

// perPrincipal returns the bound for further turns, given the number of principals.
func (b *bounds) perPrincipal(all int) *bound {
	if all > 1 {
		return &b.more
	}
	return &b.alone
}

// hasBasic reports whether a principal with the given turns can start another basic turn.
func (b *bounds) hasBasic(t *turnCounts) bool {
	return t[quick]+t[unknown]+t[doubtful]+t[slow] < b.basic
}

// A host is one destination, identified by host and port.
type host struct {
	name    string
	limiter *rate.Limiter
	guests  int32
	active  turnCounts
	lines   [classes]queue[*guest] // with ready handles
	inRing  [classes]bool
}

// A tenant is the scheduling state of one principal.
type tenant struct {
	principal string
	guests    int32
	active    turnCounts
	held      [classes]queue[*guest] // removed from their hosts' lines while the tenant uses its share of the workers
}

// A guest is the group of a tenant's subscriptions at one host.
type guest struct {
	visit
	handles int32
	active  turnCounts
	trust   int32  // responses in time since the guest was idle
	breaks  uint32 // 1 and how often a quick endpoint has become slow
	slow    bool   // the last response was not in time
	ready   [classes]queue[*Handle]
	inLine  [classes]bool // of the host, or held by the tenant
}

type visit struct {
	host   *host
	tenant *tenant
}

// joinGuest adds a handle to the principal's guest at the named host and returns the guest.
func (e *Engine) joinGuest(name, principal string) *guest {
	ho, t := e.hosts[name], e.tenants[principal]
	if ho == nil {
		ho = &host{name: name}
		e.hosts[name] = ho
	}
	if t == nil {
		t = &tenant{principal: principal}
		e.tenants[principal] = t
	}
	g := e.guests[visit{ho, t}]
	if g == nil {
		g = &guest{visit: visit{ho, t}, breaks: 1}
		e.guests[g.visit] = g
		ho.guests++
		t.guests++
	}
	g.handles++
	return g
}

// leaveGuest removes a handle from its guest.
func (e *Engine) leaveGuest(g *guest) {
	if g.handles--; g.handles > 0 {
		return
	}
	delete(e.guests, g.visit)
	if g.host.guests--; g.host.guests == 0 {
		delete(e.hosts, g.host.name)
	}
	if g.tenant.guests--; g.tenant.guests == 0 {
		delete(e.tenants, g.tenant.principal)
	}
}

// enqueue queues a handle that has work.
func (e *Engine) enqueue(h *Handle) {
	h.queued = true
	c := h.class()
	h.guest.ready[c].push(h)
	e.enqueueGuest(h.guest, c)
}

// enqueueGuest appends a guest with ready handles to the queue of its host and then queues the host.
func (e *Engine) enqueueGuest(g *guest, c class) {
	if !g.inLine[c] && !g.ready[c].empty() {
		g.inLine[c] = true
		g.host.lines[c].push(g)
	}
	e.enqueueHost(g.host)
}

// enqueueHost adds the host to the ring of each class with waiting guests and a free slot.
func (e *Engine) enqueueHost(ho *host) {
	for c := range classes {
		if !ho.inRing[c] && !ho.lines[c].empty() && ho.active.hasRoom(c, &e.perHost.all) {
			ho.inRing[c] = true
			e.rings[c].push(ho)
		}
	}
}

// dequeue removes the next handle of the class from its guest and returns it. It returns nil if no turn can start. A
// guest that has used up its share of the host stays in the host's queue. A host has at most PerHost such guests. If
// the tenant has used up its share of the workers, the guest moves to the tenant's list.
func (e *Engine) dequeue(c class) *Handle {
	ho := e.rings[c].removeAt(0)
	ho.inRing[c] = false
	if !ho.active.hasRoom(c, &e.perHost.all) {
		return nil // it returns when a place is free
	}
	line := &ho.lines[c]
	for i := 0; i < line.len(); {
		g := line.at(i)
		switch {
		case !e.hasPlace(g, c):
			i++
		case !e.inAll.hasBasic(&g.tenant.active) && !e.active.hasRoom(c, e.inAll.perPrincipal(len(e.tenants))):
			g.tenant.held[c].push(line.removeAt(i))
		default:
			g.inLine[c] = false
			line.removeAt(i)
			h := g.ready[c].removeAt(0)
			if h.class() == c {
				return h
			}
			e.enqueue(h) // its class changed while it waited
			e.enqueueGuest(g, c)
			return nil
		}
	}
	return nil
}

// hasPlace reports whether the guest can start another turn of the class at its host, which has room for one. Among
// others, and as long as its endpoints are unknown, a guest starts with one turn. Each response in time allows one more.
func (e *Engine) hasPlace(g *guest, c class) bool {
	guests := int(g.host.guests)
	switch {
	case e.perHost.hasBasic(&g.active):
		return true
	case (c == unknown || c == quick && guests > 1) && g.active[c] > g.trust:
		return false
	}
	return g.host.active.hasRoom(c, e.perHost.perPrincipal(guests))
}

// endTurn ends a turn and gives its slots to waiting guests and hosts.
func (e *Engine) endTurn(g *guest, c class) {
	e.addTurns(g, c, -1)
	if g.active == (turnCounts{}) && g.ready == ([classes]queue[*Handle]{}) {
		g.trust = 0 // a later burst starts with one turn
	}
	e.requeueWaiting(g)
}

// addTurns adds n, which can be negative, to the counts of running turns.
func (e *Engine) addTurns(g *guest, c class, n int32) {
	e.active[c] += n
	g.host.active[c] += n
	g.tenant.active[c] += n
	g.active[c] += n
}

// requeueWaiting queues the guests and hosts that can use a slot released or left unused by g. A tenant has held guests
// only while it has running turns. The end of each turn returns one held guest of each class to its queue.
func (e *Engine) requeueWaiting(g *guest) {
	for c := range classes {
		if held := &g.tenant.held[c]; !held.empty() {
			next := held.removeAt(0)
			next.host.lines[c].push(next)
			e.enqueueHost(next.host)
		}
	}
	e.enqueueHost(g.host)
}

// A queue is a first-in, first-out list. An empty queue occupies only one word, because most queues are empty.
type queue[T any] struct{ items *[]T }

func (q *queue[T]) empty() bool { return q.items == nil }

func (q *queue[T]) len() int {
	if q.empty() {
		return 0
	}
	return len(*q.items)
}

func (q *queue[T]) at(i int) T { return (*q.items)[i] }

func (q *queue[T]) push(v T) {
	if q.empty() {
		q.items = new([]T)
	}
	*q.items = append(*q.items, v)
}

// removeAt removes and returns the element at i, which is near the front.
func (q *queue[T]) removeAt(i int) T {
	items := *q.items
	v := items[i]
	copy(items[1:], items[:i])
	clear(items[:1])
	if *q.items = items[1:]; len(items) == 1 {
		q.items = nil
	}
	return v
}
