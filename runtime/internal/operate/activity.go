package operate

import (
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pulse"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

func (a *Admin) Activity(event, host string) (operator.Activity, error) {
	switch {
	case event != "" && host != "":
		return operator.Activity{}, events.Invalid(events.FieldError{Message: "name an event type or a host, not both"})
	case event != "" && a.o.Host.EventType(event) == nil:
		return operator.Activity{}, fault.NotFound("event")
	case a.o.Webhooks == nil:
		return operator.Activity{}, nil
	}
	p := a.o.Webhooks.Pulse()
	switch {
	case event != "":
		return activity(p.Event(event)), nil
	case host != "":
		return activity(p.Host(host)), nil
	}
	return activity(p.Whole()), nil
}

func activity(h pulse.Hour) operator.Activity {
	a := operator.Activity{Minutes: make([]operator.Minute, len(h.Minutes))}
	for i, m := range h.Minutes {
		a.Minutes[i] = minute(m)
	}
	a.Whole = minute(pulse.Minute{At: h.Minutes[0].At, Figures: h.Figures, Behind: h.Behind})
	return a
}

func minute(m pulse.Minute) operator.Minute {
	o := operator.Minute{At: m.At, Attempts: m.Attempts, Failures: m.Failures, P50: m.P50, P95: m.P95, P99: m.P99}
	if m.Behind >= 0 {
		o.Behind = &m.Behind
	}
	return o
}
