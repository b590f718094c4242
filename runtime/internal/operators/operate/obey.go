package operate

import (
	"context"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Obeyer executes orders from other processes on the subscriptions in this process. It implements [orders.Host].
type Obeyer struct {
	Admin *Admin
	// Log is the source of the orders.
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
	o.Admin.recheckSelected(ctx, func(Connection) bool { return true }, anyWebhook)
}

// Recall implements [orders.Host].
func (o *Obeyer) Recall(ctx context.Context, event string) error {
	et := o.Admin.o.Host.EventType(event)
	if et == nil {
		return nil // the state is read when the type is registered
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
		a.executeRevocation(ctx, &what)
	case orders.Recheck:
		a.reauthorize(ctx, what.Principal, what.Names)
	case orders.Visibility:
		a.refreshVisibility(ctx)
	case orders.Error:
		if e := what.Err(); e != nil {
			_, err = a.raiseError(target, e)
		}
	case orders.Gap:
		_, err = a.raiseGap(ctx, target, what.At, target.ID != "") // the target may not live in the process that gave the order
	case orders.Terminate, orders.Reopened:
		if target.ID == "" {
			o.Log.RecallLater(target.Event)
			break
		}
		_, err = a.terminate(ctx, target, &eventtype.Closing{Err: what.Err()})
	}
	if errors.Is(err, events.ErrNotFound) {
		return nil // the target lives elsewhere
	}
	return err
}

func targetOf(o orders.Order) operator.Target {
	if o.Target == nil {
		return operator.Target{}
	}
	return *o.Target
}

// Prepare implements [orders.Host].
func (o *Obeyer) Prepare(what orders.Order) {
	if what.Kind != orders.Revoke {
		return
	}
	for _, c := range o.Admin.allConnections() {
		if part.Belongs(c, what.Principal, what.Names) {
			c.Hold()
		}
	}
	if w := o.Admin.o.Webhooks; w != nil {
		v := revocationOf(&what)
		w.NoteRevoked(v)
		w.Each(v.Ends, func(h *subscriber.Live) { h.Handle.Stop() })
	}
}

// revocationOf converts a revoke order to a [subscriber.Revocation].
func revocationOf(o *orders.Order) subscriber.Revocation {
	return subscriber.Revocation{Principal: o.Principal, Names: o.Names, At: o.At}
}
