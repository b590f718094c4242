package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An obeyer does orders of other processes to what lives in this one; it implements [orders.Host].
type obeyer struct {
	s *Server
	l *orders.Log
}

// Changed implements [orders.Host].
func (o *obeyer) Changed(id string, of engine.Shard) { o.s.webhooks.Changed(id, of) }

// EventTypes implements [orders.Host].
func (o *obeyer) EventTypes() (names []string) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for _, et := range o.s.order {
		names = append(names, et.name)
	}
	return names
}

// Compare implements [orders.Host].
func (o *obeyer) Compare(ctx context.Context) error { return o.s.webhooks.Compare(ctx) }

// RecheckAll implements [orders.Host].
func (o *obeyer) RecheckAll(ctx context.Context) {
	s := o.s
	s.refreshVisibility(ctx)
	for _, st := range s.streamsOf(nil) {
		if e := s.refused(ctx, st.sub.Principal, st.arguments()); e != nil {
			st.end(e)
		}
	}
	if w := s.webhooks; w != nil {
		w.Each(anyWebhook, func(h *subscriber.Live) { w.Recheck(ctx, h) })
	}
}

// Do implements [orders.Host].
func (o *obeyer) Do(ctx context.Context, what orders.Order) error {
	s := o.s
	a := &admin{s}
	target := targetOf(what)
	var err error
	switch what.Kind {
	case orders.Revoke:
		s.revokeStreams(ctx, what.Principal, what.Names)
		err = o.DoLive(ctx, what, anyWebhook)
	case orders.Recheck:
		s.recheck(ctx, what.Principal, what.Names)
	case orders.Visibility:
		s.refreshVisibility(ctx)
	case orders.Error:
		if e := what.Err(); e != nil {
			_, err = a.raiseError(target, e)
		}
	case orders.Gap:
		_, err = a.raiseGap(ctx, target, target.ID != "") // where it was asked for it may not live
	case orders.Terminate, orders.Reopened:
		if target.ID == "" {
			o.l.RecallLater(target.Event)
			break
		}
		if _, streams, _, findErr := a.find(target); findErr == nil {
			a.end(streams, nil, what.Err())
		}
		err = o.DoLive(ctx, what, anyWebhook)
	case orders.Resume, orders.Replay, orders.Again:
		err = o.DoLive(ctx, what, anyWebhook)
	}
	if errors.Is(err, events.ErrNotFound) {
		return nil // it lives elsewhere
	}
	return err
}

func targetOf(o orders.Order) operator.Target {
	if o.Target == nil {
		return operator.Target{}
	}
	return *o.Target
}

// Stop implements [orders.Host].
func (o *obeyer) Stop(what orders.Order) int {
	w := o.s.webhooks
	if w == nil {
		return 0
	}
	var ends func(h *subscriber.Live) bool
	switch {
	case what.Kind == orders.Revoke:
		ends = subscriber.OfPrincipal(what.Principal, what.Names)
	case what.Kind == orders.Terminate && what.Of() != "":
		ends = func(h *subscriber.Live) bool { return h.ID == what.Of() }
	default:
		return 0
	}
	return w.Each(func(h *subscriber.Live) bool { return ends(h) && !h.BegunAfter(what.At) }, func(h *subscriber.Live) { h.Handle.Stop() })
}

// DoLive implements [orders.Host].
func (o *obeyer) DoLive(ctx context.Context, what orders.Order, pick func(*subscriber.Live) bool) error {
	s, w := o.s, o.s.webhooks
	if w == nil {
		return nil
	}
	target := targetOf(what)
	found := w.Get(target.ID)
	if found != nil && (found.BegunAfter(what.At) || !pick(found)) {
		found = nil
	}
	switch what.Kind {
	case orders.Revoke:
		mine := subscriber.OfPrincipal(what.Principal, what.Names)
		s.revokeWebhooks(ctx, func(h *subscriber.Live) bool { return mine(h) && !h.BegunAfter(what.At) && pick(h) })
	case orders.Gap:
		w.Each(func(h *subscriber.Live) bool {
			return (h.ID == target.ID || target.ID == "" && h.Type.Name() == target.Event) && pick(h)
		}, w.Gap)
	case orders.Terminate:
		if found != nil {
			w.End(found, what.Err())
		}
	case orders.Resume:
		if found != nil {
			found.Handle.Resume()
		}
	case orders.Replay:
		if found != nil {
			return w.Replay(ctx, found.ID, what.Cursor)
		}
	case orders.Again:
		if found != nil {
			o.l.Go(func(ctx context.Context) { s.sendAgainHere(ctx, target.ID, what.EventID) })
		}
	}
	return nil
}

// sendAgainHere makes an attempt for an operator who has asked another process.
func (s *Server) sendAgainHere(ctx context.Context, id, eventID string) {
	_, err := s.Admin().SendAgain(ctx, id, eventID)
	if errors.Is(err, operator.ErrUnderWay) {
		return // the other one gets what that attempt comes to
	}
	if err == nil {
		err = s.webhooks.Flush(ctx) // the other one waits for it
	}
	if err != nil {
		s.log.Internal(ctx, "sending an occurrence again for another process", err)
	}
}

// Recall implements [orders.Host].
func (o *obeyer) Recall(ctx context.Context, event string) error {
	s := o.s
	s.mu.Lock()
	et := s.types[event]
	s.mu.Unlock()
	if et == nil {
		return nil // it is read when the type is registered
	}
	return s.recallClosing(ctx, et)
}

// recallClosing makes the type as open or closed as the store says.
func (s *Server) recallClosing(ctx context.Context, et *eventType) error {
	e, err := s.cluster.closing(ctx, et.name)
	if err != nil {
		return fmt.Errorf("reading whether it was terminated: %w", err)
	}
	if e == nil {
		et.mu.Lock()
		defer et.mu.Unlock()
		et.terminated = nil
		return nil
	}
	(&admin{s}).shut(et, e)
	return nil
}

// reopen ends the termination of a type that is registered again, for all processes.
func (s *Server) reopen(ctx context.Context, et *eventType) error {
	if et.Refuses() == nil {
		return nil
	}
	if err := s.cluster.close(ctx, et.name, nil); err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	return s.cluster.tell(ctx, orders.Order{Kind: orders.Reopened, Target: &operator.Target{Event: et.name}})
}
