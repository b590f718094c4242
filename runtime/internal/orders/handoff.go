package orders

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A handoff are the orders that the earlier owners of a shard may not have done, and those that are given while
// it is owned: a record may go live after an order that ends it was done (REP-13).
type handoff struct {
	l *Log

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

// Handoff reads what was ordered since the owners of a shard have stored how far they were.
func (l *Log) Handoff(ctx context.Context, owned engine.Owned, none bool) (subscriber.Orders, error) {
	from, err := owned.Mark(ctx, engine.ControlLog)
	if err != nil {
		return nil, err
	}
	marked := from
	if none {
		to, _ := l.backlog.done()
		from = max(from, to)
	}
	if _, err := l.backlog.after(ctx, from); err != nil {
		return nil, err
	}
	now := time.Now()
	return &handoff{l: l, from: from, marked: marked, markedAt: now, next: from, nextAt: now}, nil
}

// list are the orders that there are now.
func (h *handoff) list(ctx context.Context) ([]placed, error) {
	h.mu.Lock()
	from := h.from
	h.mu.Unlock()
	return h.l.backlog.after(ctx, from)
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
		case Revoke:
			if o.Principal == r.Principal && (len(o.Names) == 0 || slices.Contains(o.Names, r.Event)) {
				return Revoked(), nil
			}
		case Terminate:
			if o.Of() == r.ID {
				return o.Err(), nil
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
		if err := h.l.host.DoLive(ctx, list[i].Order, pick); err != nil && !errors.Is(err, events.ErrNotFound) {
			h.l.o.Report.Internal(ctx, "doing what another process was asked for", err)
		}
	}
	return nil
}

// Mark implements [subscriber.Orders].
func (h *handoff) Mark(ctx context.Context, owned engine.Owned, atOnce bool) error {
	to, lasting := h.l.backlog.done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.nextAt) >= lateRecord {
		h.from, h.next, h.nextAt = max(h.from, h.next), to, time.Now()
	}
	if to <= h.marked || !atOnce && lasting <= h.marked && time.Since(h.markedAt) < markOrders {
		return nil
	}
	if err := owned.SaveMark(ctx, engine.ControlLog, to); err != nil {
		return err
	}
	h.marked, h.markedAt = to, time.Now()
	return nil
}
