package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// seekBatch is the number of entries per read during a search for an event id.
	seekBatch = 256
	// maxSeek is the maximum number of entries that a search for an event id examines.
	maxSeek = 100_000
	// maxDeliveries is the maximum number of subscriptions that a search for deliveries examines.
	maxDeliveries = 1000
)

// occurrenceWithCursor converts an entry to an occurrence that includes the cursor after it.
func occurrenceWithCursor(et part.EventType, e *store.Entry) operator.Occurrence {
	o := occurrenceOf(et, e)
	if d := et.Current(); d != nil && !d.Kernel().NoReplay {
		o.Cursor = *et.Topic().Cursor(d.Kernel(), e.Position)
	}
	return o
}

// loggedTypes returns the event types that have a log. If event is not empty, loggedTypes only returns the event type
// with that name.
func (a *Admin) loggedTypes(event string) ([]part.EventType, error) {
	t := tail{a: a, event: event}
	types := t.followedTypes()
	if event != "" && len(types) == 0 {
		return nil, fault.NotFound("event")
	}
	return types, nil
}

func (a *Admin) FindOccurrences(ctx context.Context, event, eventID string) (found []operator.Occurrence, whole bool, err error) {
	types, err := a.loggedTypes(event)
	if err != nil {
		return nil, false, err
	}
	left := maxSeek
	for _, et := range types {
		some, all, err := searchEventID(ctx, et, eventID, &left)
		if err != nil {
			return nil, false, fmt.Errorf("looking for an occurrence of %s: %w", et.Name(), err)
		}
		found = append(found, some...)
		if !all {
			return found, false, nil
		}
	}
	return found, true, nil
}

// searchEventID searches a log backward from the head for an event id. It examines up to left entries.
func searchEventID(ctx context.Context, et part.EventType, eventID string, left *int) (found []operator.Occurrence, whole bool, err error) {
	oldest, head := et.Topic().Bounds()
	for end := head; end >= oldest && end > 0; {
		if *left <= 0 {
			return found, false, nil
		}
		from := max(oldest-1, end-min(end, seekBatch))
		for at := from; at < end; {
			b, err := et.Topic().Read(ctx, at, int(end-at))
			if err != nil {
				return nil, false, err
			}
			if len(b.Entries) == 0 {
				break // evicted in the meantime
			}
			for i := range b.Entries {
				if e := &b.Entries[i]; e.Position <= end && e.EventID == eventID {
					found = append(found, occurrenceWithCursor(et, e))
				}
			}
			at = b.Entries[len(b.Entries)-1].Position
		}
		*left -= int(end - from)
		end = from
	}
	return found, true, nil
}

func (a *Admin) Occurrence(ctx context.Context, event string, p store.Position) (operator.Occurrence, error) {
	et, e, err := a.readEntry(ctx, event, p)
	if err != nil {
		return operator.Occurrence{}, err
	}
	return occurrenceWithCursor(et, e), nil
}

// readEntry reads one entry of an event type's log.
func (a *Admin) readEntry(ctx context.Context, event string, p store.Position) (part.EventType, *store.Entry, error) {
	types, err := a.loggedTypes(event)
	if err != nil || event == "" {
		return nil, nil, fault.NotFound("event")
	}
	et := types[0]
	if _, head := et.Topic().Bounds(); p == 0 || p > head {
		return nil, nil, fault.NotFound("occurrence")
	}
	b, err := et.Topic().Read(ctx, p-1, 1)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("reading occurrence %d of %s: %w", p, event, err)
	case len(b.Entries) == 0 || b.Entries[0].Position != p:
		return nil, nil, fault.NotFound("occurrence")
	}
	return et, &b.Entries[0], nil
}

func (a *Admin) Deliveries(ctx context.Context, event string, p store.Position, after string, limit int) (found []operator.Delivery, next string, err error) {
	w := a.o.Webhooks
	et, e, err := a.readEntry(ctx, event, p)
	if err != nil || w == nil {
		return nil, "", err
	}
	eventID := e.EventID // e belongs to the log
	limit = max(limit, 1)
	l := a.newQuery(ctx, operator.Filter{Event: et.Name()})
	more, last, looked := false, after, 0
	var failed error
	next, err = l.visitMatches(after, maxScan, func(i *subscriptionView) bool {
		if more = len(found) == limit || looked == maxDeliveries; more {
			return false
		}
		looked++
		last = i.ID
		var d operator.Delivery
		var ok bool
		if d, ok, failed = a.deliveryTo(ctx, i, p, eventID); ok {
			found = append(found, d)
		}
		return failed == nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return nil, "", err
	}
	if more {
		next = last
	}
	return found, next, nil
}

// deliveryTo returns the outcome of the delivery of an occurrence to a subscription. If the occurrence does not match
// the subscription, ok is false.
func (a *Admin) deliveryTo(ctx context.Context, i *subscriptionView, p store.Position, eventID string) (d operator.Delivery, ok bool, err error) {
	d = operator.Delivery{Subscription: i.ID, Principal: i.Principal, URL: i.URL, State: i.State, Attempts: []operator.Attempt{}}
	all, err := a.storedAttempts(ctx, i.ID)
	if err != nil {
		return d, false, err
	}
	for _, m := range all {
		if m.EventID == eventID && m.Position == p {
			d.Attempts = append(d.Attempts, m)
		}
	}
	concerned, settled, err := a.o.Webhooks.Concerned(ctx, &i.record.Subscription, p)
	if err != nil {
		return d, false, fmt.Errorf("matching it against subscription %s: %w", i.ID, err)
	}
	d.Outcome = outcomeOf(d.Attempts, concerned && !settled)
	return d, concerned || len(d.Attempts) > 0, nil
}

func outcomeOf(made []operator.Attempt, waits bool) operator.Outcome {
	for _, m := range made {
		if m.Category == "" {
			return operator.OutcomeAccepted
		}
	}
	switch {
	case waits, len(made) > 0 && !made[0].NextAt.IsZero():
		return operator.OutcomeWaiting
	case len(made) > 0:
		return operator.OutcomeFailed
	}
	return operator.OutcomePassed
}
