package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A placed order has its position in the control log.
type placed struct {
	at store.Position
	Order
}

// A backlog does the orders of the control log one after the other, beside the follower, who hears of
// changed records meanwhile. It remembers those that concern webhook subscriptions, for shards that are
// taken up: their owner may have died before it did them (REP-13).
type backlog struct {
	l       *Log
	tasks   sync.WaitGroup
	reading sync.Mutex // held while the log is read backwards

	mu      sync.Mutex
	working bool
	queue   []queued
	read    store.Position // everything up to it was added
	since   store.Position // everything after it that concerns subscriptions is in recent
	recent  []placed
}

type queued struct {
	placed
	own bool // it was done where it was asked for
}

const (
	// maxRecent bounds what is remembered; what is older is read again when it is needed.
	maxRecent = 4096
	// markOrders is how often it is stored how far orders are done when none of them concerns
	// subscriptions.
	markOrders = 30 * time.Second
	// earlierChunk is how many orders are read at once when the log is read again.
	earlierChunk = 1024
)

// begin says where the follower begins.
func (b *backlog) begin(head store.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent, b.since, b.read = nil, head, head
}

// pass notes an order that needs no turn.
func (b *backlog) pass(at store.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read = max(b.read, at)
}

// add has an order done, in its turn.
func (b *backlog) add(p placed, own bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.lasting() && p.at > b.read {
		if b.recent = append(b.recent, p); len(b.recent) > maxRecent {
			over := len(b.recent) - maxRecent/2
			b.since = b.recent[over-1].at
			b.recent = slices.Clone(b.recent[over:])
		}
	}
	b.read = max(b.read, p.at)
	if own && len(b.queue) == 0 {
		return
	}
	b.queue = append(b.queue, queued{p, own})
	if !b.working {
		b.working = true
		b.tasks.Go(b.work)
	}
}

func (b *backlog) work() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 || b.l.ctx.Err() != nil {
			b.working = false
			b.mu.Unlock()
			return
		}
		q := b.queue[0]
		b.mu.Unlock()
		if !q.own {
			b.l.do(q.Order)
		}
		b.mu.Lock()
		b.queue = b.queue[1:] // only now is it done
		b.mu.Unlock()
	}
}

func (b *backlog) wait() { b.tasks.Wait() }

// done is up to where all orders are done, and the last one of them that is lasting, as far as it is
// remembered.
func (b *backlog) done() (to, lasting store.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to = b.read
	if len(b.queue) > 0 {
		to = b.queue[0].at - 1
	}
	for i := len(b.recent) - 1; i >= 0 && lasting == 0; i-- {
		if b.recent[i].at <= to {
			lasting = b.recent[i].at
		}
	}
	return to, lasting
}

// after returns the lasting orders after a position.
func (b *backlog) after(ctx context.Context, from store.Position) ([]placed, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	since := b.since
	b.mu.Unlock()
	if from < since {
		earlier, err := b.l.earlier(ctx, from, since)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if b.since == since {
			b.recent, b.since = append(earlier, b.recent...), from
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	byPlace := func(p placed, at store.Position) int { return cmp.Compare(p.at, at) }
	i, _ := slices.BinarySearchFunc(b.recent, from+1, byPlace)
	return slices.Clip(b.recent[i:]), nil // what is there is never changed
}

// earlier reads the lasting orders from one position to another. Those that retention has deleted are none:
// who takes up subscriptions asks the hooks for each.
func (l *Log) earlier(ctx context.Context, from, to store.Position) (found []placed, err error) {
	log, _, err := l.at(ctx)
	for err == nil && from < to {
		var b store.Batch
		if b, err = log.Read(ctx, from, earlierChunk); err != nil {
			break
		}
		if b.Gap {
			from = b.Oldest - 1
		}
		if len(b.Entries) == 0 && !b.Gap {
			break
		}
		for i := range b.Entries {
			from = b.Entries[i].Position
			var o Order
			if from <= to && json.Unmarshal(b.Entries[i].Data, &o) == nil && o.lasting() {
				found = append(found, placed{from, o})
			}
		}
	}
	return found, err
}
