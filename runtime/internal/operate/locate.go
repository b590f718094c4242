package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
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
	var from store.Position // before the first one
	switch {
	case p.EventID != "" && p == operator.Point{EventID: p.EventID, Until: p.Until}:
		if from, err = before(ctx, et, p.EventID, maxSeek); err != nil {
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
	b.Truncated = b.Truncated || first.Position > from+1 // evicted meanwhile
	c := log.Cursor(d.Kernel(), first.Position-1)
	b.Cursor = string(c[1 : len(c)-1]) // a JSON text of plain ASCII
	b.EventID, b.Timestamp, b.Position, b.Entries = first.EventID, first.Timestamp, first.Position, int64(b.Last-first.Position)+1
	return b, nil
}

// before is the position before the last occurrence of an id among the latest entries of a log, of which it looks at most.
func before(ctx context.Context, et EventType, eventID string, most int) (from store.Position, err error) {
	left := most
	found, whole, err := seek(ctx, et, eventID, &left)
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

// replayer returns a function that replays subscriptions from a time, up to another one, whatever their event types.
func (a *Admin) replayer(since, until time.Time) func(ctx context.Context, i *operator.WebhookInfo) error {
	type located struct {
		operator.Beginning
		err error
	}
	known := map[string]located{}
	return func(ctx context.Context, i *operator.WebhookInfo) error {
		at, ok := known[i.Event]
		if !ok {
			at.Beginning, at.err = a.Locate(ctx, i.Event, operator.Point{Since: since, Until: until})
			known[i.Event] = at
		}
		if at.err != nil {
			return at.err
		}
		return a.Replay(ctx, i.ID, at.Cursor, at.Last)
	}
}

// givenUp are the last attempts at occurrences that failed since a time, before another one, and are not repeated, the oldest
// occurrence first. Of a subscription that began before and has never failed none are read. What was sent by hand is no failure
// of the subscription's, so that one of an occurrence that its endpoint had accepted is not among them there.
func (a *Admin) givenUp(ctx context.Context, i *operator.WebhookInfo, since, until time.Time) (last []operator.Attempt, err error) {
	if a.o.Attempts == nil || i.LastError == "" && i.CreatedAt.Before(since) {
		return nil, nil
	}
	if err := a.flush(ctx); err != nil {
		return nil, err
	}
	made, err := a.kept(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, m := range made {
		if seen[m.EventID] {
			continue
		}
		seen[m.EventID] = true
		if m.Category != "" && m.NextAt.IsZero() && !m.At.Before(since) && (until.IsZero() || m.At.Before(until)) {
			last = append(last, m)
		}
	}
	slices.SortFunc(last, func(a, b operator.Attempt) int { return cmp.Compare(a.Position, b.Position) })
	return last, nil
}

// sendFailed sends an occurrence again, unless somebody else has done that since the attempt failed that was seen.
func (a *Admin) sendFailed(ctx context.Context, i *operator.WebhookInfo, failed operator.Attempt) error {
	made, err := a.sendAgain(ctx, i.ID, failed.EventID, failed.At)
	if err == nil && made.Category != "" {
		err = refusedAgain(made.Category)
	}
	return err
}

// refusedAgain is an occurrence that its endpoint has refused once more.
type refusedAgain string

func (r refusedAgain) Error() string { return "an endpoint has refused again: " + string(r) }
