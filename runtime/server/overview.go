package server

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

func (a *admin) EventTypes() []operator.EventType {
	s := a.s
	s.mu.Lock()
	var types []*eventType
	for _, et := range s.types {
		types = append(types, et)
	}
	s.mu.Unlock()
	all := []operator.EventType{}
	index := map[string]int{}
	slices.SortFunc(types, func(a, b *eventType) int { return cmp.Compare(a.name, b.name) })
	for _, et := range types {
		if d := et.current(); d != nil {
			index[et.name] = len(all)
			all = append(all, et.overview(d))
		}
	}
	of := func(event string) *operator.EventType {
		if i, ok := index[event]; ok {
			return &all[i]
		}
		return new(operator.EventType) // removed meanwhile
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
func (et *eventType) overview(d *definition) operator.EventType {
	t := operator.EventType{Name: et.name, Description: d.info.Description, Delivery: d.delivery(true, "anybody"), Replay: !d.info.NoReplay}
	if et.topic != nil {
		t.Oldest, t.Head = et.topic.Bounds()
		t.PerMinute = math.Round(10*et.topic.PerMinute()) / 10
	}
	return t
}

func (a *admin) EventType(name string) (operator.EventTypeInfo, error) {
	a.s.mu.Lock()
	et := a.s.types[name]
	a.s.mu.Unlock()
	if et == nil {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	d := et.current()
	if d == nil {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	for _, t := range a.EventTypes() {
		if t.Name == name {
			return operator.EventTypeInfo{EventType: t, InputSchema: d.inputSchema.JSON(), PayloadSchema: d.payloadSchema.JSON()}, nil
		}
	}
	return operator.EventTypeInfo{}, fault.NotFound("event")
}

func (a *admin) Failing(ctx context.Context, limit int) (found []operator.WebhookInfo, total int, err error) {
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
