package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A Target is whom an operator's signal is for: all live subscriptions to an event type, or the
// ones of an id, which may be several streams.
type Target struct {
	// Event names the type; used when ID is empty.
	Event string
	// ID is a subscription's id.
	ID string
}

// order is what other processes are told of a target; what they find is theirs.
func (t Target) order(kind string, e *events.Error) order {
	o := order{Kind: kind, Target: &t}
	if e != nil {
		o.Error = objectOf(e)
	}
	return o
}

// elsewhere reports whether the target may live in another process alone.
func (a *Admin) elsewhere(t Target, err error) bool {
	return t.ID != "" && a.s.control != nil && errors.Is(err, events.ErrNotFound)
}

// find returns the live streams and webhook subscriptions of the target, and its type.
func (a *Admin) find(t Target) (et *eventType, streams []*pushStream, webhooks []*subscriber.Live, err error) {
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

// RaiseError sends the error as notifications/events/error on the target's streams, which stay open;
// webhooks know no such signal. It returns the number of streams. On a store that processes share, this
// and what follows is done in all of them, and the number is of this one (REP-13). See PUSH-5.
func (a *Admin) RaiseError(ctx context.Context, t Target, e *events.Error) (int, error) {
	n, err := a.raiseError(t, e)
	if err == nil || a.elsewhere(t, err) {
		err = wrapped("raising an error", a.s.tell(ctx, t.order(orderError, e)))
	}
	return n, err
}

func (a *Admin) raiseError(t Target, e *events.Error) (int, error) {
	_, streams, _, err := a.find(t)
	if err != nil {
		return 0, fmt.Errorf("raising an error: %w", err)
	}
	for _, st := range streams {
		st.raise(e)
	}
	return len(streams), nil
}

// RaiseGap tells the target's subscriptions that occurrences may be missing before a cursor that
// is new: streams by a fresh active with truncated true, webhooks by a gap envelope. It returns
// the number of subscriptions. A type without replay has no gaps: it is events.ErrUnsupported,
// and nobody is told anything (CUR-7). See PUSH-7, HOOK-7.
func (a *Admin) RaiseGap(ctx context.Context, t Target) (int, error) {
	n, err := a.raiseGap(ctx, t, true)
	if err == nil || a.elsewhere(t, err) {
		err = wrapped("raising a gap", a.s.tell(ctx, t.order(orderGap, nil)))
	}
	return n, err
}

// raiseGap is RaiseGap for what lives here. The log is marked once; without that it is read up to the
// mark of whoever was asked.
func (a *Admin) raiseGap(ctx context.Context, t Target, marks bool) (int, error) {
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
	_, err := et.topic.Append(ctx, store.Entry{Timestamp: events.NewTime(time.Now().UTC()), Data: json.RawMessage(`{}`), Targets: []string{nobody}}, nil, false)
	return err
}

// Terminate ends the target's live subscriptions with the error, nil for Forbidden: streams by
// terminated, webhooks by an envelope. A type stays closed: until it is registered again its
// methods answer the same error after the check of the mode. It returns the number of
// subscriptions.
func (a *Admin) Terminate(ctx context.Context, t Target, e *events.Error) (int, error) {
	if e == nil {
		e = events.Forbidden("terminated")
	}
	if t.ID == "" && a.s.control != nil {
		if _, _, _, err := a.find(t); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
		if err := a.s.control.close(ctx, t.Event, e); err != nil {
			return 0, fmt.Errorf("terminating: %w", err)
		}
	}
	n, err := a.terminate(t, e)
	if err == nil || a.elsewhere(t, err) {
		err = wrapped("terminating", a.s.tell(ctx, t.order(orderTerminate, e)))
	}
	return n, err
}

func (a *Admin) terminate(t Target, e *events.Error) (int, error) {
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
func (a *Admin) shut(et *eventType, e *events.Error) int {
	et.mu.Lock()
	et.terminated = e
	et.mu.Unlock()
	streams, webhooks := a.of(et) // those that came in between too
	a.s.leases.endType(et)
	return a.end(streams, webhooks, e)
}

// of returns the type's live streams and webhook subscriptions.
func (a *Admin) of(et *eventType) (streams []*pushStream, webhooks []*subscriber.Live) {
	if w := a.s.webhooks; w != nil {
		w.Each(subscriber.OfType(et), func(h *subscriber.Live) { webhooks = append(webhooks, h) })
	}
	return a.s.streamsOf(et), webhooks
}

func (a *Admin) end(streams []*pushStream, webhooks []*subscriber.Live, e *events.Error) int {
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
