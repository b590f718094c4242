package oauth

import (
	"cmp"
	"container/list"
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// defaultRunning is the default maximum number of concurrent checks, and maxWaiting is the maximum number of waiting
	// checks.
	defaultRunning, maxWaiting = 32, 1024
	// queueCount is the number of queues for the senders of unknown tokens.
	queueCount = 256
)

// A gate limits the number of concurrent checks to max. Checks of tokens that were recently valid have priority.
// Other checks wait in a queue selected by the hash of the sender. The queues take turns (stochastic fair queuing), so
// a sender of many tokens delays only itself and the few senders in the same queue. Each queue serves its newest check
// first: if more arrive than can be served, some are served at once, instead of all just before they are given up.
type gate struct {
	seed maphash.Seed
	max  int

	mu      sync.Mutex
	running int
	waiting int
	renewed list.List             // of *waiter: tokens that were good
	unknown [queueCount]list.List // of *waiter
	next    int                   // the queue to serve next
}

// A waiter is a check that waits in a queue.
type waiter struct {
	queue  *list.List
	result chan outcome // has room for one
}

// An outcome is the result of waiting for a turn.
type outcome int

const (
	entered   outcome = iota // the check may run; leave must follow
	refused                  // no room, or no turn within queueTimeout
	abandoned                // the context ended
)

// newGate returns a gate for up to n concurrent checks, or the default if n is 0 or less.
func newGate(n int) *gate {
	n = cmp.Or(max(n, 0), defaultRunning)
	return &gate{seed: maphash.MakeSeed(), max: n}
}

// acquire waits until a check for the sender may run, and returns the outcome of waiting.
func (g *gate) acquire(ctx context.Context, sender string, wasGood bool) outcome {
	g.mu.Lock()
	if g.running < g.max {
		g.running++
		g.mu.Unlock()
		return entered
	}
	p := &waiter{queue: &g.renewed, result: make(chan outcome, 1)}
	if !wasGood {
		p.queue = g.queueFor(sender)
	}
	e := p.queue.PushBack(p)
	if g.waiting++; g.waiting > maxWaiting {
		g.evictOldest()
	}
	g.mu.Unlock()

	limit := time.NewTimer(queueTimeout)
	defer limit.Stop()
	late := refused
	select {
	case o := <-p.result:
		return o
	case <-limit.C:
	case <-ctx.Done():
		late = abandoned
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case o := <-p.result: // at the same moment
		return o
	default:
		p.queue.Remove(e)
		g.waiting--
		return late
	}
}

// queueFor returns the queue for the sender of an unknown token.
func (g *gate) queueFor(sender string) *list.List {
	return &g.unknown[maphash.String(g.seed, sender)%queueCount]
}

// release ends a check and starts the next waiting check.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := &g.renewed
	for i := 0; q.Len() == 0 && i < queueCount; i++ {
		q = &g.unknown[g.next]
		g.next = (g.next + 1) % queueCount
	}
	if q.Len() == 0 {
		g.running--
		return
	}
	if q == &g.renewed {
		g.resolve(q, q.Front(), entered)
		return
	}
	g.resolve(q, q.Back(), entered)
}

// evictOldest refuses the oldest waiter in the longest queue of unknown tokens. The caller holds mu.
func (g *gate) evictOldest() {
	longest := &g.renewed
	for i := range g.unknown {
		if q := &g.unknown[i]; q.Len() > 0 && (longest == &g.renewed || q.Len() > longest.Len()) {
			longest = q
		}
	}
	g.resolve(longest, longest.Front(), refused)
}

// resolve removes a waiter from its queue and sends the outcome to it. The caller holds mu.
func (g *gate) resolve(q *list.List, e *list.Element, o outcome) {
	q.Remove(e)
	g.waiting--
	e.Value.(*waiter).result <- o
}
