package operate

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func (a *Admin) Locate(ctx context.Context, event string, p operator.Point) (operator.Beginning, error) {
	b, err := a.locate(ctx, event, p)
	if err != nil {
		return operator.Beginning{}, fmt.Errorf("finding the start of a replay of %s: %w", event, err)
	}
	return b, nil
}

func (a *Admin) locate(ctx context.Context, event string, p operator.Point) (b operator.Beginning, err error) {
	et := a.o.Host.EventType(event)
	if et == nil || et.Current() == nil {
		return b, fault.NotFound("event")
	}
	d := et.Current()
	switch {
	case d.Kernel().NoReplay:
		return b, subscriber.NoReplay(event)
	case d.Check() != nil || et.Topic() == nil:
		return b, fmt.Errorf("its source is a check, so there is no log to search: %w",
			events.NewError(wire.Unsupported, map[string]string{"feature": "replay"}))
	}
	log := et.Topic()
	head, err := log.Latest(ctx)
	if err != nil {
		return b, err
	}
	oldest, _ := log.Bounds()
	var from store.Position // before the first entry
	switch {
	case p.EventID != "" && p == operator.Point{EventID: p.EventID, Until: p.Until}:
		if from, err = positionBefore(ctx, et, p.EventID, maxSeek); err != nil {
			return b, err
		}
	case p.Position > 0 && p == operator.Point{Position: p.Position, Until: p.Until}:
		from, b.Truncated = max(p.Position, oldest)-1, p.Position < oldest
	case !p.Since.IsZero() && p == operator.Point{Since: p.Since, Until: p.Until}:
		st, err := log.Start(ctx, d.Kernel(), head, topic.Replay{Since: &topic.Since{At: p.Since}})
		if err != nil {
			return b, err
		}
		from, b.Truncated = st.Position, st.Truncated
	default:
		return b, events.Invalid(events.FieldError{Message: "a replay begins at one of a time, a position and an event id"})
	}
	b.Last = head
	if !p.Until.IsZero() {
		if b.Last, err = log.Before(ctx, p.Until); err != nil {
			return b, err
		}
		if from < head && from >= b.Last {
			return b, events.Invalid(events.FieldError{Message: "there is nothing before the requested end"})
		}
	}
	if from >= head {
		return b, events.Invalid(events.FieldError{Message: fmt.Sprintf("there is nothing to replay: the log of %s ends at position %d", event, head)})
	}
	batch, err := log.Read(ctx, from, 1)
	if err != nil {
		return b, err
	}
	if len(batch.Entries) == 0 || batch.Entries[0].Position > b.Last {
		return b, events.Invalid(events.FieldError{Message: "none of it is retained any longer"})
	}
	first := &batch.Entries[0]
	b.Truncated = b.Truncated || first.Position > from+1 // evicted in the meantime
	b.Cursor = *log.Cursor(d.Kernel(), first.Position-1)
	b.EventID, b.Timestamp, b.Position, b.Entries = first.EventID, first.Timestamp, first.Position, int64(b.Last-first.Position)+1
	return b, nil
}

// positionBefore returns the position before the latest occurrence with the id. It examines up to most entries of the
// log, newest first.
func positionBefore(ctx context.Context, et part.EventType, eventID string, most int) (from store.Position, err error) {
	left := most
	found, whole, err := searchEventID(ctx, et, eventID, &left)
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0 && !whole:
		return 0, events.Invalid(events.FieldError{Message: fmt.Sprintf("the latest %d entries have no event of this id, and older ones were not looked at: "+
			"begin at a time or a position", most)})
	case len(found) == 0:
		return 0, fault.NotFound("occurrence")
	}
	for _, o := range found {
		from = max(from, o.Position-1)
	}
	return from, nil
}
