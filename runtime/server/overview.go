package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An EventType is one that is registered.
type EventType struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery are the ways in which it is offered.
	Delivery []string `json:"delivery"`
	// Replay tells whether what is past can be delivered again.
	Replay bool `json:"replay"`
	// Oldest and Head are the first retained position of its log and the last one: how many
	// occurrences there have been. Both are 0 without a log.
	Oldest store.Position `json:"oldest"`
	Head   store.Position `json:"head"`
	// PerMinute is how many occurrences become visible in this process in a minute, as an average of the
	// last one.
	PerMinute float64 `json:"perMinute"`
	// Behind is by how many entries the slowest stream or webhook subscription of this process is behind
	// the log.
	Behind int64 `json:"behind"`
	// Streams, Pollers and Webhooks count live subscriptions of this process.
	Streams  int `json:"streams"`
	Pollers  int `json:"pollers"`
	Webhooks int `json:"webhooks"`
}

// An EventTypeInfo is an event type with what its subscribers know of it.
type EventTypeInfo struct {
	EventType
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// EventTypes returns the registered event types in order of their names.
func (a *Admin) EventTypes() []EventType {
	s := a.s
	s.mu.Lock()
	var types []*eventType
	for _, et := range s.types {
		types = append(types, et)
	}
	s.mu.Unlock()
	all := []EventType{}
	index := map[string]int{}
	slices.SortFunc(types, func(a, b *eventType) int { return cmp.Compare(a.name, b.name) })
	for _, et := range types {
		if d := et.current(); d != nil {
			index[et.name] = len(all)
			all = append(all, et.overview(d))
		}
	}
	of := func(event string) *EventType {
		if i, ok := index[event]; ok {
			return &all[i]
		}
		return new(EventType) // removed meanwhile
	}
	for _, st := range s.streamsOf(nil) {
		t := of(st.sub.Event)
		t.Streams++
		if n := st.behind(); n != nil {
			t.Behind = max(t.Behind, *n)
		}
	}
	s.leases.each(func(sub Subscription) { of(sub.Event).Pollers++ })
	if s.webhooks != nil {
		s.webhooks.Each(anyWebhook, func(h *subscriber.Live) { of(h.Type.Name()).Webhooks++ })
		for event, n := range s.webhooks.Lag() {
			t := of(event)
			t.Behind = max(t.Behind, n)
		}
	}
	return all
}

// overview is what the type itself tells.
func (et *eventType) overview(d *definition) EventType {
	t := EventType{Name: et.name, Description: d.info.Description, Delivery: d.delivery(true, "anybody"), Replay: !d.info.NoReplay}
	if et.topic != nil {
		t.Oldest, t.Head = et.topic.Bounds()
		t.PerMinute = et.topic.PerMinute()
	}
	return t
}

// EventType returns the registered event type of a name.
func (a *Admin) EventType(name string) (EventTypeInfo, error) {
	a.s.mu.Lock()
	et := a.s.types[name]
	a.s.mu.Unlock()
	if et == nil {
		return EventTypeInfo{}, fault.NotFound("event")
	}
	d := et.current()
	if d == nil {
		return EventTypeInfo{}, fault.NotFound("event")
	}
	for _, t := range a.EventTypes() {
		if t.Name == name {
			return EventTypeInfo{t, d.descriptor.InputSchema, d.descriptor.PayloadSchema}, nil
		}
	}
	return EventTypeInfo{}, fault.NotFound("event")
}

// Failing returns up to limit webhook subscriptions of this process that are suspended or whose last
// attempt failed, in order of their ids, and how many there are.
func (a *Admin) Failing(ctx context.Context, limit int) (found []WebhookInfo, total int, err error) {
	if a.s.webhooks == nil {
		return nil, 0, nil
	}
	ids, total := a.s.webhooks.Failing(limit)
	slices.Sort(ids)
	for _, id := range ids {
		i, err := a.Get(ctx, id)
		switch {
		case errors.Is(err, events.ErrNotFound): // it ended meanwhile
		case err != nil:
			return nil, 0, err
		default:
			found = append(found, i)
		}
	}
	return found, total, nil
}
