package operate

import (
	"cmp"
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

func (a *Admin) EventTypes() []operator.EventType {
	all := []operator.EventType{}
	index := map[string]int{}
	for _, et := range a.sortedTypes() {
		if i, ok := et.Describe(false); ok {
			index[et.Name()] = len(all)
			all = append(all, addLogOverview(et, i.EventType))
		}
	}
	of := func(event string) *operator.EventType {
		if i, ok := index[event]; ok {
			return &all[i]
		}
		return new(operator.EventType) // removed in the meantime
	}
	for _, st := range a.o.Host.Streams() {
		t := of(st.Type().Name())
		t.Streams++
		if n := st.Behind(); n != nil {
			t.Behind = max(t.Behind, *n)
		}
	}
	for _, c := range a.o.Host.Pollers() {
		of(c.Type().Name()).Pollers++
	}
	if w := a.o.Webhooks; w != nil {
		for event, n := range w.Live() {
			of(event).Webhooks += n
		}
		for event, n := range w.Lag() {
			t := of(event)
			t.Behind = max(t.Behind, n)
		}
	}
	return all
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

func (a *Admin) EventType(name string) (operator.EventTypeInfo, error) {
	et := a.o.Host.EventType(name)
	if et == nil {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	i, ok := et.Describe(true)
	if !ok {
		return operator.EventTypeInfo{}, fault.NotFound("event")
	}
	for _, t := range a.EventTypes() {
		if t.Name == name {
			i.EventType = t
			return i, nil
		}
	}
	return operator.EventTypeInfo{}, fault.NotFound("event")
}
