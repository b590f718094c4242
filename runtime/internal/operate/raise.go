package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// tell tells the other processes of what was done here. What was not found here may live in one of them alone.
func (a *Admin) tell(ctx context.Context, what string, o orders.Order, err error) error {
	switch {
	case err == nil:
		return wrapped(what, a.o.Processes.Tell(ctx, o))
	case o.Target.ID != "" && errors.Is(err, events.ErrNotFound):
		return wrapped(what, a.o.Processes.Ask(ctx, o))
	}
	return err
}

// A targeted is what a target is about: an event type, or what is live under an id.
type targeted struct {
	et       EventType // nil for an id
	streams  []Stream
	webhooks []*subscriber.Live
}

func (f *targeted) len() int { return len(f.streams) + len(f.webhooks) }

// types are the event types that it is about, each of them once or more often.
func (f *targeted) types() (all []eventtype.Type) {
	if f.et != nil {
		all = append(all, f.et)
	}
	for _, st := range f.streams {
		all = append(all, st.Type())
	}
	for _, h := range f.webhooks {
		all = append(all, h.Type)
	}
	return all
}

// find returns what lives here of the target.
func (a *Admin) find(t operator.Target) (*targeted, error) {
	if t.ID == "" {
		et := a.o.Host.EventType(t.Event)
		if et == nil {
			return nil, fault.NotFound("event")
		}
		return a.of(et), nil
	}
	f := &targeted{}
	for _, st := range a.o.Host.Streams() {
		if st.Info().Subscription == t.ID {
			f.streams = append(f.streams, st)
		}
	}
	if w := a.o.Webhooks; w != nil {
		if h := w.Get(t.ID); h != nil {
			f.webhooks = append(f.webhooks, h)
		}
	}
	if f.len() == 0 {
		return nil, fault.NotFound("subscription")
	}
	return f, nil
}

// reach has a webhook subscription taken up that waits for it. One that cannot be is found nowhere.
func (a *Admin) reach(ctx context.Context, t operator.Target) {
	if a.o.Webhooks != nil && t.ID != "" {
		_, _ = a.o.Webhooks.Reach(ctx, t.ID)
	}
}

// of returns what is live of an event type.
func (a *Admin) of(et EventType) *targeted {
	f := &targeted{et: et}
	for _, st := range a.o.Host.Streams() {
		if st.Type() == et {
			f.streams = append(f.streams, st)
		}
	}
	if w := a.o.Webhooks; w != nil {
		w.Each(subscriber.OfType(et), func(h *subscriber.Live) { f.webhooks = append(f.webhooks, h) })
	}
	return f
}

func (a *Admin) RaiseError(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	n, err := a.raiseError(t, e)
	return n, a.tell(ctx, "raising an error", orders.To(t, orders.Error, e), err)
}

func (a *Admin) raiseError(t operator.Target, e *events.Error) (int, error) {
	f, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("raising an error: %w", err)
	}
	for _, st := range f.streams {
		st.Raise(e)
	}
	return len(f.streams), nil
}

func (a *Admin) RaiseGap(ctx context.Context, t operator.Target) (int, error) {
	a.reach(ctx, t)
	n, err := a.raiseGap(ctx, t, true)
	return n, a.tell(ctx, "raising a gap", orders.To(t, orders.Gap, nil), err)
}

// raiseGap is RaiseGap for what lives here. The log is marked once; without that it is read up to the
// mark of whoever was asked.
func (a *Admin) raiseGap(ctx context.Context, t operator.Target, marks bool) (int, error) {
	f, err := a.find(t)
	if err == nil {
		err = a.markAll(ctx, f.types(), marks)
	}
	if err != nil {
		return 0, fmt.Errorf("raising a gap: %w", err)
	}
	if w := a.o.Webhooks; w != nil && f.et != nil {
		w.GapWaiting(f.et)
		f = a.of(f.et)
	}
	for _, st := range f.streams {
		st.Raise(nil)
	}
	for _, h := range f.webhooks {
		a.o.Webhooks.Gap(h)
	}
	return f.len(), nil
}

// markAll gives the types' cursors a new place, each once. Where one of them has no replay nothing is marked.
func (a *Admin) markAll(ctx context.Context, types []eventtype.Type, marks bool) error {
	for _, et := range types {
		if d := et.Current(); d != nil && d.Kernel().NoReplay {
			return subscriber.NoReplay(et.Name())
		}
	}
	marked := map[eventtype.Type]bool{}
	for _, et := range types {
		if marked[et] || et.Topic() == nil {
			continue
		}
		marked[et] = true
		var err error
		if marks {
			err = a.mark(ctx, et)
		} else {
			_, err = et.Topic().Latest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nobody is the target of an entry that only moves positions on.
const nobody = "-"

// mark appends an entry that concerns nobody, so that the cursor after it is a new one. Marks are
// no occurrences: every one is appended, and no author can emit under their id, which is none.
func (a *Admin) mark(ctx context.Context, et eventtype.Type) error {
	_, err := et.Topic().Append(ctx, store.Entry{Timestamp: events.NewTime(a.o.Now()), Data: json.RawMessage(`{}`), Targets: []string{nobody}}, nil, false)
	return err
}

func (a *Admin) Terminate(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	e = cmp.Or(e, events.Forbidden("terminated"))
	if t.ID == "" {
		if _, err := a.find(t); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
		if err := a.o.Processes.CloseType(ctx, t.Event, e); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
	}
	a.reach(ctx, t)
	n, err := a.terminate(t, e)
	return n, a.tell(ctx, "terminating", orders.To(t, orders.Terminate, e), err)
}

func (a *Admin) terminate(t operator.Target, e *events.Error) (int, error) {
	f, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("terminating: %w", err)
	}
	if f.et != nil {
		return a.shut(f.et, e), nil
	}
	return a.end(f, e), nil
}

// shut closes the type and ends what is live of it, what came in just now too.
func (a *Admin) shut(et EventType, e *events.Error) int {
	et.Close(e)
	f := a.of(et)
	for _, c := range a.o.Host.Pollers() {
		if c.Type() == et {
			c.Terminate(e)
		}
	}
	return a.end(f, e)
}

func (a *Admin) end(f *targeted, e *events.Error) int {
	for _, st := range f.streams {
		st.Terminate(e)
	}
	for _, h := range f.webhooks {
		a.o.Webhooks.End(h, e)
	}
	return f.len()
}

// Recall makes the type as open or closed as the store says.
func (a *Admin) Recall(ctx context.Context, et EventType) error {
	e, err := a.o.Processes.ClosedType(ctx, et.Name())
	if err != nil {
		return fmt.Errorf("reading whether it was terminated: %w", err)
	}
	if e == nil {
		et.Close(nil)
		return nil
	}
	a.shut(et, e)
	return nil
}

// Reopen ends the termination of a type that is registered again, for all processes.
func (a *Admin) Reopen(ctx context.Context, et EventType) error {
	if et.Refuses() == nil {
		return nil
	}
	if err := a.o.Processes.CloseType(ctx, et.Name(), nil); err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	return a.o.Processes.Tell(ctx, orders.Order{Kind: orders.Reopened, Target: &operator.Target{Event: et.Name()}})
}
