package operate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func (a *Admin) Between(ctx context.Context, event string, since, until time.Time, after string, limit int) (w operator.Window, err error) {
	if since.IsZero() {
		return w, events.Invalid(events.FieldError{Message: "since is missing"})
	}
	if err := a.checkWindow(since, until); err != nil {
		return w, err
	}
	if until.IsZero() {
		until = a.o.Now()
	}
	from, err := parseTypePosition(after)
	if err != nil {
		return w, err
	}
	types, err := a.loggedTypes(event)
	if err != nil {
		return w, err
	}
	w.Since, w.Until, w.Occurrences = since, until, []operator.Happened{}
	limit = max(limit, 1)
	for _, et := range types {
		if et.Name() < from.event {
			continue
		}
		start := store.Position(0)
		if et.Name() == from.event {
			start = from.position
		}
		some, more, err := occurrencesBetween(ctx, et, since, until, start, limit-len(w.Occurrences))
		if err != nil {
			return w, fmt.Errorf("reading the log of %s: %w", et.Name(), err)
		}
		w.Occurrences = append(w.Occurrences, some...)
		if more {
			last := &w.Occurrences[limit-1]
			w.Next = last.Event + "/" + strconv.FormatUint(uint64(last.Position), 10)
			break
		}
	}
	return w, wrapError("reading attempts", a.addDeliveries(ctx, event, &w))
}

// checkWindow returns an error if since is in the future or not before until. Zero times restrict nothing.
func (a *Admin) checkWindow(since, until time.Time) error {
	switch {
	case since.After(a.o.Now()):
		return events.Invalid(events.FieldError{Message: fmt.Sprintf("since, %s, is in the future", formatUTC(since))})
	case !until.IsZero() && !until.After(since):
		return events.Invalid(events.FieldError{Message: fmt.Sprintf("until, %s, is not after since, %s", formatUTC(until), formatUTC(since))})
	}
	return nil
}

// A typePosition is a position in a list of the entries of all event types. It consists of an event type and a position
// in its log.
type typePosition struct {
	event    string
	position store.Position
}

// parseTypePosition parses a typePosition, such as ping/7. It returns the zero value for an empty string.
func parseTypePosition(text string) (p typePosition, err error) {
	if text == "" {
		return p, nil
	}
	event, position, found := strings.Cut(text, "/")
	n, err := strconv.ParseUint(position, 10, 63)
	if err != nil || !found || event == "" {
		return p, events.Invalid(events.FieldError{Message: "after is not a page cursor of occurrences"})
	}
	return typePosition{event, store.Position(n)}, nil
}

// occurrencesBetween returns up to limit retained occurrences of an event type that follow a position and have
// timestamps between two times. The result more reports whether more occurrences follow. Authors can set timestamps out
// of order, so occurrencesBetween also examines seekBatch entries on either side.
func occurrencesBetween(ctx context.Context, et part.EventType, since, until time.Time, after store.Position, limit int) (found []operator.Happened, more bool, err error) {
	log := et.Topic()
	if _, err := log.Latest(ctx); err != nil {
		return nil, false, err
	}
	first, err := log.Before(ctx, since)
	if err != nil {
		return nil, false, err
	}
	last, err := log.Before(ctx, until)
	if err != nil {
		return nil, false, err
	}
	last += seekBatch
	for at := max(after, first-min(first, seekBatch)); at < last; {
		b, err := log.Read(ctx, at, seekBatch)
		if err != nil {
			return nil, false, err
		}
		if len(b.Entries) == 0 {
			break
		}
		for i := range b.Entries {
			e := &b.Entries[i]
			at = e.Position
			if e.Timestamp.Before(since) || !e.Timestamp.Before(until) {
				continue
			}
			if len(found) == limit {
				return found, true, nil
			}
			found = append(found, operator.Happened{Occurrence: occurrenceWithCursor(et, e)})
		}
	}
	return found, false, nil
}

// addDeliveries adds the results of deliveries to w, based on the stored attempts of a sample of subscriptions. It also
// counts the attempts in the time window.
func (a *Admin) addDeliveries(ctx context.Context, event string, w *operator.Window) (err error) {
	type id struct{ event, id string }
	index := map[id]*operator.Happened{}
	for i := range w.Occurrences {
		o := &w.Occurrences[i]
		index[id{o.Event, o.EventID}] = o
	}
	w.Subscriptions, w.Whole, err = a.sampleAttempts(ctx, operator.Filter{Event: event}, func(_ *operator.WebhookInfo, made []operator.Attempt) {
		of := map[*operator.Happened][]operator.Attempt{}
		for n := range made {
			m := &made[n]
			if !m.At.Before(w.Since) && m.At.Before(w.Until) {
				if w.Attempts++; m.Category != "" {
					w.Failures++
				}
			}
			if o := index[id{m.Event, m.EventID}]; o != nil {
				of[o] = append(of[o], *m)
			}
		}
		for o, made := range of {
			o.Attempts += len(made)
			switch outcomeOf(made, false) {
			case operator.OutcomeAccepted:
				o.Accepted++
			case operator.OutcomeWaiting:
				o.Waiting++
			default:
				o.Failed++
			}
			if last := &made[0]; last.At.After(o.LastAt) {
				o.LastAt, o.LastError, o.LastStatus = last.At, last.Category, last.Status
			}
		}
	})
	return err
}
