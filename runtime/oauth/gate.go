package oauth

import (
	"container/list"
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// maxAsking bounds the concurrent questions, and maxWaiting the waiting ones.
	maxAsking, maxWaiting = 32, 8192
	// queues is the number of queues into which the senders of unknown tokens are hashed.
	queues = 256
)

// A gate lets maxAsking questions run at a time. Questions about tokens that were good go first. The others wait in a
// queue chosen by the hash of their sender, and the queues take turns (stochastic fair queuing): a sender of many
// tokens delays only itself and the few senders that happen to share its queue.
type gate struct {
	seed maphash.Seed

	mu      sync.Mutex
	asking  int
	waiting int
	renewed list.List         // of *place: tokens that were good
	unknown [queues]list.List // of *place
	next    int               // the queue to serve next
}

// A place is a position in a queue.
type place struct {
	queue  *list.List
	called chan outcome // has room for one
}

// An outcome is how the wait for a turn ended.
type outcome int

const (
	entered   outcome = iota // the question runs; leave must follow
	refused                  // no room, or no turn within waitTime
	abandoned                // the context ended
)

func newGate() *gate { return &gate{seed: maphash.MakeSeed()} }

// enter waits until a question of the sender may run, and returns the outcome.
func (g *gate) enter(ctx context.Context, sender string, wasGood bool) outcome {
	g.mu.Lock()
	if g.asking < maxAsking {
		g.asking++
		g.mu.Unlock()
		return entered
	}
	p := &place{queue: &g.renewed, called: make(chan outcome, 1)}
	if !wasGood {
		p.queue = g.queue(sender)
	}
	e := p.queue.PushBack(p)
	if g.waiting++; g.waiting > maxWaiting {
		g.displace()
	}
	g.mu.Unlock()

	limit := time.NewTimer(waitTime)
	defer limit.Stop()
	late := refused
	select {
	case o := <-p.called:
		return o
	case <-limit.C:
	case <-ctx.Done():
		late = abandoned
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case o := <-p.called: // at the same moment
		return o
	default:
		p.queue.Remove(e)
		g.waiting--
		return late
	}
}

// queue returns the queue of a sender of unknown tokens.
func (g *gate) queue(sender string) *list.List {
	return &g.unknown[maphash.String(g.seed, sender)%queues]
}

// leave ends a question and admits the next one.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := &g.renewed
	for i := 0; q.Len() == 0 && i < queues; i++ {
		q = &g.unknown[g.next]
		g.next = (g.next + 1) % queues
	}
	if q.Len() == 0 {
		g.asking--
		return
	}
	g.call(q, q.Front(), entered)
}

// displace refuses the newest place in the longest queue of unknown tokens. The caller holds mu.
func (g *gate) displace() {
	longest := &g.renewed
	for i := range g.unknown {
		if q := &g.unknown[i]; q.Len() > 0 && (longest == &g.renewed || q.Len() > longest.Len()) {
			longest = q
		}
	}
	g.call(longest, longest.Back(), refused)
}

// call ends the wait at a place. The caller holds mu.
func (g *gate) call(q *list.List, e *list.Element, o outcome) {
	q.Remove(e)
	g.waiting--
	e.Value.(*place).called <- o
}
