// Package orders passes the requests of operators, authors and subscribers from one process to all processes on a
// store. The targets of a request may live in any of them (REP-11, REP-13). An order is an entry of the control log,
// which is a log of the store. Every process follows the log and does its part, without waiting for the others. A
// lasting effect is stored as a state before the order is appended: the next owner of a shard reads it.
package orders

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Order is a request to one process that all processes must follow (REP-13). It is stored as JSON.
type Order struct {
	Kind      Kind              `json:"kind"`
	Principal string            `json:"principal,omitempty"`
	Names     []string          `json:"names,omitempty"`
	Target    *operator.Target  `json:"target,omitempty"`
	Error     *wire.ErrorObject `json:"error,omitempty"`
	// Shard is the shard of the subscription, within the type of Target.
	Shard int `json:"shard,omitempty"`
	// At is when the order was given: it does not affect anything that began later.
	At time.Time `json:"at,omitzero"`
}

// A Kind is the kind of an order. A build ignores kinds that it does not know.
type Kind string

// Kinds of orders.
const (
	Revoke     Kind = "revoke"
	Recheck    Kind = "recheck"
	Visibility Kind = "visibility"
	Error      Kind = "error"
	Gap        Kind = "gap"
	Terminate  Kind = "terminate"
	Reopened   Kind = "reopened"
	// Changed reports that the record of a webhook subscription was created, changed or deleted.
	Changed Kind = "subscription"
)

// To returns an order for a target, with an optional error.
func To(t operator.Target, kind Kind, e *events.Error) Order {
	o := Order{Kind: kind, Target: &t}
	if e != nil {
		o.Error = fault.Stored(e)
	}
	return o
}

// Err returns the error of the order; nil for none.
func (o *Order) Err() *events.Error { return fault.FromStored(o.Error) }

// Of returns the target's id; "" for none.
func (o *Order) Of() string {
	if o.Target == nil {
		return ""
	}
	return o.Target.ID
}

// A Host executes orders in its process.
type Host interface {
	// Do executes an order. It may call the author's hooks.
	Do(ctx context.Context, o Order) error
	// Prepare is called when the order is read, before its turn, because orders wait for hooks of the author. It
	// stops new deliveries to subscriptions that the order ends (REP-11), and ensures that subscriptions which are
	// restored later get the order.
	Prepare(o Order)
	// Changed makes the host read the record of a webhook subscription.
	Changed(id string, of engine.Shard)
	// Recall opens or closes the event type as the store says. It ignores a type that is not registered.
	Recall(ctx context.Context, event string) error

	// The following methods make up for orders that are no longer retained. EventTypes returns the registered types,
	// Compare reads every record, and RecheckAll rechecks everything that is live with the hooks.
	EventTypes() []string
	Compare(ctx context.Context) error
	RecheckAll(ctx context.Context)
}
