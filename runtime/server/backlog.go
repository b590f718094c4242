package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A placed order has its position in the control log.
type placed struct {
	at store.Position
	order
}

// A backlog does the orders of the control log one after the other, beside the follower, who hears of
// changed records meanwhile. It remembers those that concern webhook subscriptions, for shards that are
// taken up: their owner may have died before it did them (REP-13).
type backlog struct {
	c       *control
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

func (b *backlog) init(c *control) { b.c = c }

// begin says where the follower begins.
func (b *backlog) begin(head store.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent, b.since, b.read = nil, head, head
}

// lasting reports whether a shard that is taken up has to make up for the order. What hooks decide is asked
// for anyway.
func (o *order) lasting() bool {
	switch o.Kind {
	case orderRevoke, orderGap, orderResume, orderReplay:
		return true
	case orderTerminate:
		return o.Target != nil && o.Target.ID != ""
	}
	return false
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
		if len(b.queue) == 0 || b.c.ctx.Err() != nil {
			b.working = false
			b.mu.Unlock()
			return
		}
		q := b.queue[0]
		b.mu.Unlock()
		if !q.own {
			b.c.do(q.order)
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
		earlier, err := b.c.earlier(ctx, from, since)
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
func (c *control) earlier(ctx context.Context, from, to store.Position) (found []placed, err error) {
	log, _, err := c.at(ctx)
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
			var o order
			if from <= to && json.Unmarshal(b.Entries[i].Data, &o) == nil && o.lasting() {
				found = append(found, placed{from, o})
			}
		}
	}
	return found, err
}

// heard reports whether it is known up to a moment ago what the other processes have done.
func (c *control) heard() bool {
	seen := c.upToNow.Load()
	return seen != nil && time.Since(*seen) <= maxUnheard
}

// A handoff are the orders that the earlier owners of a shard may not have done, and those that are given while
// it is owned: a record may go live after an order that ends it was done (REP-13).
type handoff struct {
	c *control

	mu       sync.Mutex
	from     store.Position // orders up to it have nothing more to find
	marked   store.Position
	markedAt time.Time
	next     store.Position // what from becomes, lateRecord after it was done
	nextAt   time.Time
}

// lateRecord is how long after it was made a record certainly has an owner that knows of it: until then orders of
// after it are looked through when it goes live. An owner compares what is stored every other minute.
const lateRecord = 10 * time.Minute

// orders reads what was ordered since the owners of a shard have stored how far they were.
func (c *control) orders(ctx context.Context, owned engine.Owned, none bool) (subscriber.Orders, error) {
	from, _, err := owned.Resume(ctx, engine.ControlLog)
	if err != nil {
		return nil, err
	}
	marked := from
	if none {
		to, _ := c.backlog.done()
		from = max(from, to)
	}
	if _, err := c.backlog.after(ctx, from); err != nil {
		return nil, err
	}
	now := time.Now()
	return &handoff{c: c, from: from, marked: marked, markedAt: now, next: from, nextAt: now}, nil
}

// list are the orders that there are now.
func (h *handoff) list(ctx context.Context) ([]placed, error) {
	h.mu.Lock()
	from := h.from
	h.mu.Unlock()
	return h.c.backlog.after(ctx, from)
}

// Ends implements [subscriber.Orders].
func (h *handoff) Ends(ctx context.Context, r *store.Subscription) (*events.Error, error) {
	list, err := h.list(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		o := &list[i]
		if r.CreatedAt.After(o.At) {
			continue
		}
		switch o.Kind {
		case orderRevoke:
			if o.Principal == r.Principal && (len(o.Names) == 0 || slices.Contains(o.Names, r.Event)) {
				return revoked(), nil
			}
		case orderTerminate:
			if o.Target.ID == r.ID {
				return errorFrom(o.Error), nil
			}
		}
	}
	return nil, nil
}

// Finish implements [subscriber.Orders].
func (h *handoff) Finish(ctx context.Context, pick func(*subscriber.Live) bool) error {
	list, err := h.list(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		if err := h.c.orderWebhooks(ctx, list[i].order, pick); err != nil && !errors.Is(err, events.ErrNotFound) {
			h.c.server.log.Internal(ctx, "doing what another process was asked for", err)
		}
	}
	return nil
}

// Mark implements [subscriber.Orders].
func (h *handoff) Mark(ctx context.Context, owned engine.Owned, atOnce bool) error {
	to, lasting := h.c.backlog.done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.nextAt) >= lateRecord {
		h.from, h.next, h.nextAt = max(h.from, h.next), to, time.Now()
	}
	if to <= h.marked || !atOnce && lasting <= h.marked && time.Since(h.markedAt) < markOrders {
		return nil
	}
	if err := owned.Dispatched(ctx, engine.ControlLog, to, nil); err != nil {
		return err
	}
	h.marked, h.markedAt = to, time.Now()
	return nil
}

// stopWebhooks lets no delivery begin to what the order ends, until its turn comes: orders wait for hooks of the
// author that others need (REP-11). It returns how many subscriptions that are.
func (s *Server) stopWebhooks(o order) int {
	w := s.webhooks
	if w == nil {
		return 0
	}
	var ends func(h *subscriber.Live) bool
	switch {
	case o.Kind == orderRevoke:
		ends = subscriber.OfPrincipal(o.Principal, o.Names)
	case o.Kind == orderTerminate && o.Target != nil && o.Target.ID != "":
		ends = func(h *subscriber.Live) bool { return h.ID == o.Target.ID }
	default:
		return 0
	}
	return w.Each(func(h *subscriber.Live) bool { return ends(h) && !h.BegunAfter(o.At) }, func(h *subscriber.Live) { h.Handle.Stop() })
}

// orderWebhooks does what an order says to the webhook subscriptions that live here and that pick picks.
func (c *control) orderWebhooks(ctx context.Context, o order, pick func(*subscriber.Live) bool) error {
	s, w := c.server, c.server.webhooks
	if w == nil {
		return nil
	}
	target := operator.Target{}
	if o.Target != nil {
		target = *o.Target
	}
	found := w.Get(target.ID)
	if found != nil && (found.BegunAfter(o.At) || !pick(found)) {
		found = nil
	}
	switch o.Kind {
	case orderRevoke:
		mine := subscriber.OfPrincipal(o.Principal, o.Names)
		s.revokeWebhooks(ctx, func(h *subscriber.Live) bool { return mine(h) && !h.BegunAfter(o.At) && pick(h) })
	case orderGap:
		w.Each(func(h *subscriber.Live) bool {
			return (h.ID == target.ID || target.ID == "" && h.Type.Name() == target.Event) && pick(h)
		}, w.Gap)
	case orderTerminate:
		if found != nil {
			w.End(found, errorFrom(o.Error))
		}
	case orderResume:
		if found != nil {
			found.Handle.Resume()
		}
	case orderReplay:
		if found != nil {
			return w.Replay(ctx, found.ID, o.Cursor)
		}
	case orderAgain:
		if found != nil {
			c.backlog.tasks.Go(func() { c.sendAgainHere(target.ID, o.EventID) })
		}
	}
	return nil
}

// sendAgainHere makes an attempt for an operator who has asked another process.
func (c *control) sendAgainHere(id, eventID string) {
	s := c.server
	ctx, cancel := context.WithTimeout(c.ctx, orderTime)
	defer cancel()
	_, err := s.Admin().SendAgain(ctx, id, eventID)
	if errors.Is(err, operator.ErrUnderWay) {
		return // the other one gets what that attempt comes to
	}
	if err == nil {
		err = s.webhooks.Flush(ctx) // the other one waits for it
	}
	if err != nil {
		s.log.Internal(ctx, "sending an occurrence again for another process", err)
	}
}
