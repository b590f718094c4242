// Package orders sends requests from operators, authors and subscribers to all processes on a store. The targets of a
// request can be live in each of these processes (REP-11, REP-13). An order is an entry of the control log, which is a
// log of the store. Every process follows the log and executes the orders independently of the other processes. A
// lasting effect is stored as a state before the order is appended, so the next owner of a shard can read it.
package orders

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Order is a request that was received by one process and must be executed by all processes (REP-13). It is stored
// as JSON.
type Order struct {
	Kind      Kind              `json:"kind"`
	Principal string            `json:"principal,omitempty"`
	Names     []string          `json:"names,omitempty"`
	Target    *operator.Target  `json:"target,omitempty"`
	Error     *wire.ErrorObject `json:"error,omitempty"`
	// Shard is the shard of the subscription, within the type of Target.
	Shard int `json:"shard,omitempty"`
	// At is the position of a revocation or a gap of an event type, see [Log.Request]. The order affects the subscriptions
	// that were admitted before At.
	At store.ControlPosition `json:"at,omitzero"`
}

// A Kind is the kind of an order. A process ignores unknown kinds.
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
	// Changed is the kind of an order that announces the creation, change or deletion of a webhook subscription's
	// record.
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

// Err returns the error that the order contains, or nil.
func (o *Order) Err() *events.Error { return fault.FromStored(o.Error) }

// Of returns the target's id, or "" if the target has no id.
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
	// Prepare is called when the order is read. The order itself may have to wait for earlier orders that call the
	// author's hooks. Prepare stops new deliveries to subscriptions that the order ends (REP-11) and ensures that the
	// order also applies to subscriptions that are restored later.
	Prepare(o Order)
	// Changed schedules a read of the record of a webhook subscription.
	Changed(id string, of engine.Shard)
	// Recall opens or closes the event type according to the store. It ignores types that are not registered.
	Recall(ctx context.Context, event string) error

	// The following methods compensate for orders that are no longer retained. EventTypes returns the names of the
	// registered event types. Compare reads every record. RecheckAll rechecks all live subscriptions with the hooks.
	EventTypes() []string
	Compare(ctx context.Context) error
	RecheckAll(ctx context.Context)
}
