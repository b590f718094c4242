package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// tailEvery is the interval at which a tail checks for new entries.
	tailEvery = 250 * time.Millisecond
	// tailBatch is the maximum number of occurrences that are read from one event type at a time.
	tailBatch = 50
	// tailPage is the maximum number of occurrences that are read from all event types together at a time.
	tailPage = 500
	// tailBehind is the lag above which a tail skips all but the last tailBatch entries of an event type's log.
	tailBehind = 1000
)

// A tail implements [operator.Tail].
type tail struct {
	a     *Admin
	event string
	at    map[part.EventType]store.Position
	first int // the event type at which the next read begins
}

func (a *Admin) Tail(event string) (operator.Tail, error) {
	t := &tail{a: a, event: event, at: map[part.EventType]store.Position{}}
	types := t.followedTypes()
	if event != "" && len(types) == 0 {
		return nil, fmt.Errorf("following %s: %w", event, fault.NotFound("event"))
	}
	for _, et := range types {
		t.at[et] = et.Topic().Head()
	}
	return t, nil
}

// followedTypes returns the event types that the tail follows, sorted by name.
func (t *tail) followedTypes() (all []part.EventType) {
	if t.event == "" {
		all = t.a.sortedTypes()
	} else if et := t.a.o.Host.EventType(t.event); et != nil {
		all = []part.EventType{et}
	}
	return slices.DeleteFunc(all, func(et part.EventType) bool { return et.Topic() == nil })
}

// Next implements [operator.Tail].
func (t *tail) Next(ctx context.Context) (found []operator.Occurrence, skipped int64, err error) {
	for {
		if found, skipped, err = t.poll(ctx); err != nil || len(found) > 0 || skipped > 0 {
			return found, skipped, err
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-t.a.o.Closing:
			return nil, 0, fmt.Errorf("following occurrences: %w", events.ErrClosed)
		case <-time.After(tailEvery):
		}
	}
}

// occurrenceOf converts an entry to an occurrence.
func occurrenceOf(et part.EventType, e *store.Entry) operator.Occurrence {
	data := e.Data
	if topic.Sound(e) != nil {
		data = nil // invalid JSON would break the response
	}
	return operator.Occurrence{Event: et.Name(), EventID: e.EventID, Timestamp: e.Timestamp, Position: e.Position,
		Bytes: len(e.Data), Targeted: e.Targets != nil, Data: data}
}

func (t *tail) poll(ctx context.Context) (found []operator.Occurrence, skipped int64, err error) {
	types := t.followedTypes()
	for i := range types {
		if len(found)+tailBatch > tailPage {
			break
		}
		et := types[(t.first+i)%len(types)]
		head := et.Topic().Head()
		at, ok := t.at[et]
		if !ok { // registered since the tail began
			at = head - min(head, store.Position(et.Topic().Appended()))
		}
		at = min(at, head) // a new epoch may begin at a lower position
		if head-at > tailBehind {
			skipped += int64(head - at - tailBatch)
			at = head - tailBatch
		}
		t.at[et] = at
		if at == head {
			continue
		}
		b, err := et.Topic().Read(ctx, at, tailBatch)
		if err != nil {
			return nil, 0, fmt.Errorf("following %s: %w", et.Name(), err)
		}
		for j := range b.Entries {
			e := &b.Entries[j]
			if e.Position > head {
				break // not announced so far
			}
			skipped += int64(e.Position - at - 1)
			at = e.Position
			found = append(found, occurrenceOf(et, e))
		}
		if len(b.Entries) == 0 && b.Oldest > head { // evicted before they could be read
			skipped += int64(head - at)
			at = head
		}
		t.at[et] = at
	}
	if len(types) > 0 {
		t.first = (t.first + 1) % len(types)
	}
	return found, skipped, nil
}
