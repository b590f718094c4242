package delivery

import (
	"time"

	"golang.org/x/time/rate"
)

// A class represents the expected response time of an endpoint. Slower classes have fewer slots, so hanging endpoints
// do not block other endpoints.
type class uint8

const (
	quick   class = iota // the last attempt or the challenge was answered in time
	unknown              // no attempt or challenge so far
	slow                 // the last attempt or the challenge was not answered in time
	classes
)

// quickLimit is the response time below which an endpoint belongs to the quick class.
const quickLimit = time.Second

// classOf returns the class of an endpoint with the given response time.
func classOf(took time.Duration) class {
	if took < quickLimit {
		return quick
	}
	return slow
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

// bounds contains the bounds that divide the slots of a host or the workers of the engine.
type bounds struct {
	all   bound // of all principals: three quarters for unknown and slow endpoints, half for slow endpoints
	one   bound // of one principal among others: half of all, so that hanging endpoints leave the rest to the others
	alone bound // of the only principal; unknown endpoints have half, since others may follow
}

func boundsOf(n int) (b bounds) {
	for c := range classes {
		b.all[c] = int32(max(1, n*(4-int(c))/4))
		b.one[c] = max(1, b.all[c]/2)
	}
	b.alone = b.all
	b.alone[unknown] = b.one[unknown]
	return b
}

// perPrincipal returns the bound for each principal, given the number of principals.
func (b *bounds) perPrincipal(all int) *bound {
	if all > 1 {
		return &b.one
	}
	return &b.alone
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
		g = &guest{visit: visit{ho, t}}
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
	h.guest.ready[h.class].push(h)
	e.enqueueGuest(h.guest, h.class)
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
		case !g.active.hasRoom(c, e.perHost.perPrincipal(int(ho.guests))):
			i++
		case !g.tenant.active.hasRoom(c, e.inAll.perPrincipal(len(e.tenants))):
			g.tenant.held[c].push(line.removeAt(i))
		default:
			g.inLine[c] = false
			line.removeAt(i)
			return g.ready[c].removeAt(0)
		}
	}
	return nil
}

// endTurn ends a turn and gives its slots to waiting guests and hosts.
func (e *Engine) endTurn(g *guest, c class) {
	e.addTurns(g, c, -1)
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
