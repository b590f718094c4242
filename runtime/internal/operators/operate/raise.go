package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// notify sends an order for an action to the other processes after this process has performed the action. If the target
// was not found in this process, the order requests the action from the other processes.
func (a *Admin) notify(ctx context.Context, what string, o orders.Order, err error) error {
	switch {
	case err == nil:
		return wrapError(what, a.o.Processes.Tell(ctx, o))
	case o.Target.ID != "" && errors.Is(err, events.ErrNotFound):
		return wrapError(what, a.o.Processes.Ask(ctx, o))
	}
	return err
}

// targetObjects contains the objects in this process that a target selects, which are the subscriptions to an event
// type or the live subscriptions with an id.
type targetObjects struct {
	et       part.EventType // nil for a target with an id
	streams  []Stream
	webhooks []*subscriber.Live
}

func (f *targetObjects) len() int { return len(f.streams) + len(f.webhooks) }

// eventTypes returns the event types of the objects, possibly with duplicates.
func (f *targetObjects) eventTypes() (all []eventtype.Type) {
	if f.et != nil {
		all = append(all, f.et)
	}
	for _, st := range f.streams {
		all = append(all, st.Type())
	}
	for _, h := range f.webhooks {
		all = append(all, h.Type())
	}
	return all
}

// findTarget returns the objects in this process that the target selects.
func (a *Admin) findTarget(t operator.Target) (*targetObjects, error) {
	if t.ID == "" {
		et := a.o.Host.EventType(t.Event)
		if et == nil {
			return nil, fault.NotFound("event")
		}
		return a.objectsOf(et), nil
	}
	f := &targetObjects{}
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

// webhookRecord returns the record of the webhook subscription that a target identifies, or nil if the target
// identifies a different object.
func (a *Admin) webhookRecord(ctx context.Context, t operator.Target) (*store.Subscription, error) {
	if t.ID == "" {
		return nil, nil
	}
	r, err := a.webhookByID(ctx, t.ID)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &r, nil
}

// countOrZero returns n, or 0 if err is not nil.
func countOrZero(n int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return n, nil
}

// raiseGapOf signals a gap to one webhook subscription.
func (a *Admin) raiseGapOf(ctx context.Context, r *store.Subscription) error {
	if et := a.o.Host.EventType(r.Event); et != nil {
		if err := a.markTypes(ctx, []eventtype.Type{et}, true); err != nil {
			return wrapError("raising a gap", err)
		}
	}
	_, err := a.request(ctx, "raising a gap of", r.ID, store.RequestGap, store.Request{})
	return err
}

// objectsOf returns the live subscriptions to an event type.
func (a *Admin) objectsOf(et part.EventType) *targetObjects {
	f := &targetObjects{et: et}
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
	return n, a.notify(ctx, "raising an error", orders.To(t, orders.Error, e), err)
}

func (a *Admin) raiseError(t operator.Target, e *events.Error) (int, error) {
	f, err := a.findTarget(t)
	if err != nil {
		return 0, fmt.Errorf("raising an error: %w", err)
	}
	for _, st := range f.streams {
		st.Raise(e)
	}
	return len(f.streams), nil
}

func (a *Admin) RaiseGap(ctx context.Context, t operator.Target) (int, error) {
	r, err := a.webhookRecord(ctx, t)
	if r != nil || err != nil {
		if err == nil {
			err = a.raiseGapOf(ctx, r)
		}
		return countOrZero(1, err)
	}
	o := orders.To(t, orders.Gap, nil)
	var storeErr error
	o.At, storeErr = a.o.Processes.Request(ctx)
	n, err := a.raiseGap(ctx, t, o.At, true)
	if err == nil && storeErr != nil {
		return n, wrapError("raising a gap", storeErr)
	}
	return n, a.notify(ctx, "raising a gap", o, err)
}

// raiseGap is like RaiseGap, but only affects the subscriptions in this process. A gap of a type also applies to
// subscriptions that were admitted before at and are restored later. If marks is set, raiseGap also appends a mark to the
// log. Otherwise it reads the log up to the mark of the process that sent the order.
func (a *Admin) raiseGap(ctx context.Context, t operator.Target, at store.ControlPosition, marks bool) (int, error) {
	f, err := a.findTarget(t)
	if err == nil {
		err = a.markTypes(ctx, f.eventTypes(), marks)
	}
	if err != nil {
		return 0, fmt.Errorf("raising a gap: %w", err)
	}
	for _, st := range f.streams {
		st.Raise(nil)
	}
	n := len(f.streams)
	if w := a.o.Webhooks; w != nil && f.et != nil {
		n += w.GapOfType(f.et, at)
	}
	return n, nil
}

// markTypes advances the head of each event type's log once, even if the list contains the event type repeatedly. If
// one of the event types has no replay, markTypes does not append marks and returns an error.
func (a *Admin) markTypes(ctx context.Context, types []eventtype.Type, marks bool) error {
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
			err = a.appendMark(ctx, et)
		} else {
			_, err = et.Topic().Latest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noTarget is the target of an entry that only advances the head of the log.
const noTarget = "-"

// appendMark appends an entry that no subscription receives, so the cursor after it differs from all earlier cursors.
// Marks are not occurrences and have no event id. Therefore, they are never dropped as duplicates, and an author cannot
// emit an occurrence with their id.
func (a *Admin) appendMark(ctx context.Context, et eventtype.Type) error {
	_, err := et.Topic().Append(ctx, store.Entry{Timestamp: events.NewTime(a.o.Now()), Data: json.RawMessage(`{}`), Targets: []string{noTarget}}, false)
	return err
}

func (a *Admin) Terminate(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	e = cmp.Or(e, events.Forbidden("terminated"))
	c := &eventtype.Closing{Err: e, Termination: operator.Termination{By: actor.Of(ctx), At: a.o.Now().UTC()}}
	if t.ID == "" {
		if _, err := a.findTarget(t); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
		if err := a.o.Processes.CloseType(ctx, t.Event, c); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
	}
	if r, err := a.webhookRecord(ctx, t); r != nil || err != nil {
		if err == nil {
			_, err = a.End(ctx, r.ID, e)
		}
		return countOrZero(1, wrapError("terminating", err))
	}
	n, err := a.terminate(ctx, t, c)
	return n, a.notify(ctx, "terminating", orders.To(t, orders.Terminate, e), err)
}

func (a *Admin) terminate(ctx context.Context, t operator.Target, c *eventtype.Closing) (int, error) {
	f, err := a.findTarget(t)
	if err != nil {
		return 0, fmt.Errorf("terminating: %w", err)
	}
	if f.et == nil {
		return a.end(f, c.Err), nil
	}
	if _, err := a.loadClosing(ctx, f.et); err != nil {
		a.setClosing(f.et, c, a.closings.Load()) // it is stored, so it applies although it cannot be read
	}
	return a.endType(f.et, c.Err), nil
}

// endType ends the live subscriptions of a closed event type, including subscriptions that are just being created.
func (a *Admin) endType(et part.EventType, e *events.Error) int {
	f := a.objectsOf(et)
	for _, c := range a.o.Host.Pollers() {
		if c.Type() == et {
			c.Terminate(e)
		}
	}
	return a.end(f, e)
}

func (a *Admin) end(f *targetObjects, e *events.Error) int {
	for _, st := range f.streams {
		st.Terminate(e)
	}
	for _, h := range f.webhooks {
		a.o.Webhooks.End(h, e)
	}
	return f.len()
}

// Recall opens or closes the type according to its state in the store.
func (a *Admin) Recall(ctx context.Context, et part.EventType) error {
	c, err := a.loadClosing(ctx, et)
	if c != nil {
		a.endType(et, c.Err)
	}
	return err
}

// loadClosing opens or closes the type according to its state in the store, and returns the stored termination. If
// another call has done this during the read, it reads again, because its result may be the older one.
func (a *Admin) loadClosing(ctx context.Context, et part.EventType) (*eventtype.Closing, error) {
	for {
		before := a.closings.Load()
		c, err := a.o.Processes.ClosedType(ctx, et.Name())
		if err != nil {
			return nil, fmt.Errorf("reading whether it was terminated: %w", err)
		}
		if a.setClosing(et, c, before) {
			return c, nil
		}
	}
}

// setClosing opens or closes the type. It does nothing and returns false if the number of earlier calls is not before.
func (a *Admin) setClosing(et part.EventType, c *eventtype.Closing, before uint64) bool {
	a.closing.Lock()
	defer a.closing.Unlock()
	if !a.closings.CompareAndSwap(before, before+1) {
		return false
	}
	et.Close(c)
	return true
}

// Reopen implements [operator.Admin].
func (a *Admin) Reopen(ctx context.Context, event string) error {
	et := a.o.Host.EventType(event)
	if et == nil {
		return fault.NotFound("event")
	}
	return a.reopen(ctx, et)
}

// Registered ends, in all processes, the termination of a type that is being registered.
func (a *Admin) Registered(ctx context.Context, et part.EventType) error {
	if et.Refuses() == nil {
		return nil
	}
	return a.reopen(ctx, et)
}

func (a *Admin) reopen(ctx context.Context, et part.EventType) error {
	err := a.o.Processes.CloseType(ctx, et.Name(), nil)
	if err == nil {
		_, err = a.loadClosing(ctx, et)
	}
	if err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	return a.o.Processes.Tell(ctx, orders.Order{Kind: orders.Reopened, Target: &operator.Target{Event: et.Name()}})
}
