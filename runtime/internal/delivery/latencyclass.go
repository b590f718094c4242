package delivery

import (
	"time"

	"golang.org/x/time/rate"
)

// A class is the expected speed of an endpoint. Each class has fewer places than the class before it, so that
// hanging endpoints do not block the others.
type class uint8

const (
	quick   class = iota // the last attempt or the challenge was answered in time
	unknown              // no attempt or challenge so far
	slow                 // the last attempt or the challenge was not answered in time
	classes
)

// soon is the time within which an endpoint must answer to be quick.
const soon = time.Second

// classOf returns the class of an endpoint that took the given time to answer.
func classOf(took time.Duration) class {
	if took < soon {
		return quick
	}
	return slow
}

// turns counts the running turns by class.
type turns [classes]int32

// A bound limits, for each class, the running turns of the class and of the classes after it.
type bound [classes]int32

// room reports whether another turn of the class may start.
func (t *turns) room(of class, b *bound) bool {
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

// bounds divides the places of a host, or the workers of the engine.
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

// of returns the bound of one principal among all principals.
func (b *bounds) of(all int) *bound {
	if all > 1 {
		return &b.one
	}
	return &b.alone
}

// A host is one destination, a host and port.
type host struct {
	name    string
	limiter *rate.Limiter
	guests  int32
	active  turns
	lines   [classes]queue[*guest] // with ready handles
	inRing  [classes]bool
}

// A tenant is one principal.
type tenant struct {
	principal string
	guests    int32
	active    turns
	held      [classes]queue[*guest] // removed from their hosts' lines while the tenant uses its share of the workers
}

// A guest holds one tenant's subscriptions at one host.
type guest struct {
	visit
	handles int32
	active  turns
	ready   [classes]queue[*Handle]
	inLine  [classes]bool // of the host, or held by the tenant
}

type visit struct {
	host   *host
	tenant *tenant
}

// guestOf returns the guest of the principal at the named host, with one more handle.
func (e *Engine) guestOf(name, principal string) *guest {
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

// leave removes a handle from its guest.
func (e *Engine) leave(g *guest) {
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
	e.lineUp(h.guest, h.class)
}

// lineUp puts the guest at the end of its host's line if it has ready handles, and the host in the ring.
func (e *Engine) lineUp(g *guest, c class) {
	if !g.inLine[c] && !g.ready[c].empty() {
		g.inLine[c] = true
		g.host.lines[c].push(g)
	}
	e.inRing(g.host)
}

// inRing puts the host in the rings of the classes for which it has a place.
func (e *Engine) inRing(ho *host) {
	for c := range classes {
		if !ho.inRing[c] && !ho.lines[c].empty() && ho.active.room(c, &e.perHost.all) {
			ho.inRing[c] = true
			e.rings[c].push(ho)
		}
	}
}

// call removes the next handle of the class from its guest and returns it. It returns nil if no turn may start. A
// guest with its share of the host stays in the host's line, which at most PerHost guests have. A guest whose
// tenant has its share of the workers moves to the tenant.
func (e *Engine) call(c class) *Handle {
	ho := e.rings[c].take(0)
	ho.inRing[c] = false
	if !ho.active.room(c, &e.perHost.all) {
		return nil // it returns when a place is free
	}
	line := &ho.lines[c]
	for i := 0; i < line.len(); {
		g := line.at(i)
		switch {
		case !g.active.room(c, e.perHost.of(int(ho.guests))):
			i++
		case !g.tenant.active.room(c, e.inAll.of(len(e.tenants))):
			g.tenant.held[c].push(line.take(i))
		default:
			g.inLine[c] = false
			line.take(i)
			return g.ready[c].take(0)
		}
	}
	return nil
}

// vacate ends a turn and passes its places on.
func (e *Engine) vacate(g *guest, c class) {
	e.count(g, c, -1)
	e.passOn(g)
}

// count adds turns that begin, or subtracts turns that end.
func (e *Engine) count(g *guest, c class, by int32) {
	e.active[c] += by
	g.host.active[c] += by
	g.tenant.active[c] += by
	g.active[c] += by
}

// passOn queues the guests and hosts that wait for a place that the guest released or did not use. A tenant holds
// guests only while it has turns under way, and each of them puts one guest of each class back in its line.
func (e *Engine) passOn(g *guest) {
	for c := range classes {
		if held := &g.tenant.held[c]; !held.empty() {
			next := held.take(0)
			next.host.lines[c].push(next)
			e.inRing(next.host)
		}
	}
	e.inRing(g.host)
}

// A queue is a FIFO list. Most queues are empty and take one word.
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

// take removes and returns the element at i, which is near the front.
func (q *queue[T]) take(i int) T {
	items := *q.items
	v := items[i]
	copy(items[1:], items[:i])
	clear(items[:1])
	if *q.items = items[1:]; len(items) == 1 {
		q.items = nil
	}
	return v
}
