package operate

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Obeyer does orders of other processes to what lives in this one; it implements [orders.Host].
type Obeyer struct {
	Admin *Admin
	// Log is where the orders come from.
	Log *orders.Log
}

// Changed implements [orders.Host].
func (o *Obeyer) Changed(id string, of engine.Shard) { o.Admin.o.Webhooks.Changed(id, of) }

// EventTypes implements [orders.Host].
func (o *Obeyer) EventTypes() (names []string) {
	for _, et := range o.Admin.o.Host.EventTypes() {
		names = append(names, et.Name())
	}
	return names
}

// Compare implements [orders.Host].
func (o *Obeyer) Compare(ctx context.Context) error { return o.Admin.o.Webhooks.Compare(ctx) }

// RecheckAll implements [orders.Host].
func (o *Obeyer) RecheckAll(ctx context.Context) {
	o.Admin.refreshVisibility(ctx)
	o.Admin.recheck(ctx, func(Connection) bool { return true }, anyWebhook)
}

// Recall implements [orders.Host].
func (o *Obeyer) Recall(ctx context.Context, event string) error {
	et := o.Admin.o.Host.EventType(event)
	if et == nil {
		return nil // it is read when the type is registered
	}
	return o.Admin.Recall(ctx, et)
}

// Do implements [orders.Host].
func (o *Obeyer) Do(ctx context.Context, what orders.Order) error {
	a, target := o.Admin, targetOf(what)
	var err error
	switch what.Kind {
	case orders.Revoke:
		a.revokeConnected(ctx, what.Principal, what.Names)
		err = o.DoLive(ctx, what, anyWebhook)
	case orders.Recheck:
		a.reauthorize(ctx, what.Principal, what.Names)
	case orders.Visibility:
		a.refreshVisibility(ctx)
	case orders.Error:
		if e := what.Err(); e != nil {
			_, err = a.raiseError(target, e)
		}
	case orders.Gap:
		_, err = a.raiseGap(ctx, target, target.ID != "") // where it was asked for it may not live
	case orders.Terminate, orders.Reopened:
		if target.ID == "" {
			o.Log.RecallLater(target.Event)
			break
		}
		if t, findErr := a.find(target); findErr == nil {
			t.webhooks = nil // DoLive looks when they began
			a.end(t, what.Err())
		}
		err = o.DoLive(ctx, what, anyWebhook)
	case orders.Resume, orders.Replay, orders.EndReplay, orders.Again:
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
func (o *Obeyer) Stop(what orders.Order) int {
	w := o.Admin.o.Webhooks
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
func (o *Obeyer) DoLive(ctx context.Context, what orders.Order, pick func(*subscriber.Live) bool) error {
	a, w := o.Admin, o.Admin.o.Webhooks
	if w == nil {
		return nil
	}
	target := targetOf(what)
	switch what.Kind {
	case orders.Revoke:
		mine := subscriber.OfPrincipal(what.Principal, what.Names)
		a.revokeWebhooks(ctx, func(h *subscriber.Live) bool { return mine(h) && !h.BegunAfter(what.At) && pick(h) })
	case orders.Gap:
		w.Each(func(h *subscriber.Live) bool {
			return (h.ID == target.ID || target.ID == "" && h.Type.Name() == target.Event) && pick(h)
		}, w.Gap)
	}
	found := w.Get(target.ID)
	if found == nil || found.BegunAfter(what.At) || !pick(found) {
		return nil
	}
	switch what.Kind {
	case orders.Terminate:
		w.End(found, what.Err())
	case orders.Resume:
		found.Handle.Resume()
	case orders.Replay:
		return a.replayHere(actor.With(ctx, what.Actor), found.ID, what.Cursor, what.Last)
	case orders.EndReplay:
		err := found.Handle.EndReplay(ctx)
		switch {
		case err == nil:
			return a.answer(ctx, what, answerDone)
		case errors.Is(err, delivery.ErrNoReplay):
			return a.answer(ctx, what, answerNone)
		}
		return err
	case orders.Again:
		o.Log.Go(func(ctx context.Context) { a.sendAgainHere(actor.With(ctx, what.Actor), target.ID, what) })
	}
	return nil
}
