package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// tell tells the other processes of what was done here. What was not found here may live in one of them alone.
func (a *admin) tell(ctx context.Context, what string, o orders.Order, err error) error {
	switch {
	case err == nil:
		return wrapped(what, a.s.cluster.tell(ctx, o))
	case o.Target.ID != "" && errors.Is(err, events.ErrNotFound):
		return wrapped(what, a.s.cluster.ask(ctx, o))
	}
	return err
}

// find returns the live streams and webhook subscriptions of the target, and its type.
func (a *admin) find(t operator.Target) (et *eventType, streams []*pushStream, webhooks []*subscriber.Live, err error) {
	if t.ID == "" {
		a.s.mu.Lock()
		et = a.s.types[t.Event]
		a.s.mu.Unlock()
		if et == nil {
			return nil, nil, nil, fault.NotFound("event")
		}
	}
	for _, st := range a.s.streamsOf(et) {
		if et != nil || st.sub.ID == t.ID {
			streams = append(streams, st)
		}
	}
	if w := a.s.webhooks; w != nil {
		w.Each(func(h *subscriber.Live) bool { return h.Type == et || et == nil && h.ID == t.ID },
			func(h *subscriber.Live) { webhooks = append(webhooks, h) })
	}
	if et == nil && len(streams)+len(webhooks) == 0 {
		return nil, nil, nil, fault.NotFound("subscription")
	}
	return et, streams, webhooks, nil
}

func (a *admin) RaiseError(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	n, err := a.raiseError(t, e)
	return n, a.tell(ctx, "raising an error", orders.To(t, orders.Error, e), err)
}

func (a *admin) raiseError(t operator.Target, e *events.Error) (int, error) {
	_, streams, _, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("raising an error: %w", err)
	}
	for _, st := range streams {
		st.raise(e)
	}
	return len(streams), nil
}

func (a *admin) RaiseGap(ctx context.Context, t operator.Target) (int, error) {
	n, err := a.raiseGap(ctx, t, true)
	return n, a.tell(ctx, "raising a gap", orders.To(t, orders.Gap, nil), err)
}

// raiseGap is RaiseGap for what lives here. The log is marked once; without that it is read up to the
// mark of whoever was asked.
func (a *admin) raiseGap(ctx context.Context, t operator.Target, marks bool) (int, error) {
	et, streams, webhooks, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("raising a gap: %w", err)
	}
	types := []*eventType{et}
	for _, st := range streams {
		types = append(types, st.et)
	}
	for _, h := range webhooks {
		types = append(types, h.Type.(*eventType))
	}
	for _, et := range types {
		if et == nil {
			continue
		}
		if d := et.current(); d != nil && d.info.NoReplay {
			return 0, fmt.Errorf("raising a gap: %w", subscriber.NoReplay(et.name))
		}
	}
	marked := map[*eventType]bool{}
	mark := func(et *eventType) error {
		if marked[et] || et.topic == nil {
			return nil
		}
		marked[et] = true
		if !marks {
			_, err := et.topic.Latest(ctx)
			return err
		}
		return et.mark(ctx)
	}
	if et != nil {
		err = mark(et)
	}
	for _, st := range streams {
		if err == nil {
			err = mark(st.et)
		}
	}
	for _, h := range webhooks {
		if err == nil {
			err = mark(h.Type.(*eventType))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("raising a gap: %w", err)
	}
	for _, st := range streams {
		st.raise(nil)
	}
	for _, h := range webhooks {
		a.s.webhooks.Gap(h)
	}
	return len(streams) + len(webhooks), nil
}

// nobody is the target of an entry that only moves positions on.
const nobody = "-"

// mark appends an entry that concerns nobody, so that the cursor after it is a new one. Marks are
// no occurrences: every one is appended, and no author can emit under their id, which is none.
func (et *eventType) mark(ctx context.Context) error {
	_, err := et.topic.Append(ctx, store.Entry{Timestamp: events.NewTime(et.server.now()), Data: json.RawMessage(`{}`), Targets: []string{nobody}}, nil, false)
	return err
}

func (a *admin) Terminate(ctx context.Context, t operator.Target, e *events.Error) (int, error) {
	if e == nil {
		e = events.Forbidden("terminated")
	}
	if t.ID == "" {
		if _, _, _, err := a.find(t); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
		if err := a.s.cluster.close(ctx, t.Event, e); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
	}
	n, err := a.terminate(t, e)
	return n, a.tell(ctx, "terminating", orders.To(t, orders.Terminate, e), err)
}

func (a *admin) terminate(t operator.Target, e *events.Error) (int, error) {
	et, streams, webhooks, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("terminating: %w", err)
	}
	if et != nil {
		return a.shut(et, e), nil
	}
	return a.end(streams, webhooks, e), nil
}

// shut closes the type and ends what is live.
func (a *admin) shut(et *eventType, e *events.Error) int {
	et.mu.Lock()
	et.terminated = e
	et.mu.Unlock()
	streams, webhooks := a.of(et) // those that came in between too
	a.s.leases.endType(et)
	return a.end(streams, webhooks, e)
}

// of returns the type's live streams and webhook subscriptions.
func (a *admin) of(et *eventType) (streams []*pushStream, webhooks []*subscriber.Live) {
	if w := a.s.webhooks; w != nil {
		w.Each(subscriber.OfType(et), func(h *subscriber.Live) { webhooks = append(webhooks, h) })
	}
	return a.s.streamsOf(et), webhooks
}

func (a *admin) end(streams []*pushStream, webhooks []*subscriber.Live, e *events.Error) int {
	for _, st := range streams {
		st.end(e)
	}
	for _, h := range webhooks {
		a.s.webhooks.End(h, e)
	}
	return len(streams) + len(webhooks)
}

// Refuses returns the error with which an operator has closed the type, nil when it is open.
func (et *eventType) Refuses() *events.Error {
	et.mu.Lock()
	defer et.mu.Unlock()
	return et.terminated
}

// raise queues a signal for the stream: an error, or nil for a gap.
func (st *pushStream) raise(e *events.Error) {
	st.mu.Lock()
	st.raised = append(st.raised, e)
	st.mu.Unlock()
	st.signal()
}

// signals are the frames of what was raised.
func (st *pushStream) signals(into []frame.Frame) []frame.Frame {
	st.mu.Lock()
	raised := st.raised
	st.raised = nil
	st.mu.Unlock()
	for _, e := range raised {
		if e == nil {
			into = append(into, frame.Active(st.source.Cursor(), true, st.tail))
		} else {
			into = append(into, frame.Error(wire.NotificationError, fault.Object(e, st.dialect), st.tail))
		}
	}
	return into
}
