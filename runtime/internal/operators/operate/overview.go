package operate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// sortedTypes returns the registered event types, sorted by name.
func (a *Admin) sortedTypes() []part.EventType {
	types := a.o.Host.EventTypes()
	slices.SortFunc(types, func(a, b part.EventType) int { return cmp.Compare(a.Name(), b.Name()) })
	return types
}

func (a *Admin) EventTypes(ctx context.Context) []operator.EventType {
	m, all := a.reports(ctx), []operator.EventType{}
	missing := len(m.freshness().Missing) > 0
	for _, et := range a.sortedTypes() {
		i, ok := et.Describe(false)
		if !ok {
			continue
		}
		t := addLogOverview(et, i.EventType)
		if !missing {
			t.Counts = m.counts(et.Name())
		}
		all = append(all, t)
	}
	return all
}

// counts adds up the figures of an event type in all processes.
func (m *membership) counts(event string) *operator.Counts {
	var c operator.Counts
	for _, p := range m.replicas {
		t := p.report.Types[event]
		c.Streams += t.Streams
		c.Pollers += t.Pollers
		c.Webhooks += t.Webhooks
		c.Abandoned += t.Abandoned
		c.Behind = max(c.Behind, t.Behind)
	}
	return &c
}

// addLogOverview returns t with additional information from the event type's log.
func addLogOverview(et part.EventType, t operator.EventType) operator.EventType {
	if log := et.Topic(); log != nil {
		t.Oldest, t.Head = log.Bounds()
		t.Damaged = log.Damaged()
		t.PerMinute = math.Round(10*log.PerMinute()) / 10
	}
	return t
}

func (a *Admin) EventType(ctx context.Context, name string) (operator.EventTypeInfo, error) {
	et := a.o.Host.EventType(name)
	if et == nil {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	i, ok := et.Describe(true)
	if !ok {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	i.EventType = addLogOverview(et, i.EventType)
	if m := a.reports(ctx); len(m.freshness().Missing) == 0 {
		i.Counts = m.counts(name)
	}
	return i, nil
}
