// Package orders tells all processes on one store what an operator, an author or a subscriber has asked of one of them,
// since what it is about may live in any of them (REP-11, REP-13). An order is an entry of the control log, which is a
// log of the store. Every process follows it, does its own part, and does not wait for the others. What has to last is
// stored as a state before its order is appended. The next owner of a shard carries out the orders that the last owner
// may not have done.
package orders

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Order is what one process was asked for and all have to do (REP-13). It is stored as JSON.
type Order struct {
	Kind      Kind              `json:"kind"`
	Principal string            `json:"principal,omitempty"`
	Names     []string          `json:"names,omitempty"`
	Target    *operator.Target  `json:"target,omitempty"`
	Error     *wire.ErrorObject `json:"error,omitempty"`
	// Shard is that of the subscription, of the type of Target.
	Shard   int    `json:"shard,omitempty"`
	Cursor  string `json:"cursor,omitempty"`
	EventID string `json:"eventId,omitempty"`
	// Seen is when the latest attempt was made that who asks for another one knows of.
	Seen time.Time `json:"seen,omitzero"`
	// Last is where a replay ends, 0 for no end.
	Last store.Position `json:"last,omitempty"`
	// Actor is who asked for attempts.
	Actor string `json:"actor,omitempty"`
	// Answer is the key of the action by which who does it answers who asks; "" where nobody waits.
	Answer string `json:"answer,omitempty"`
	// At is when it was ordered: what began later is not meant.
	At time.Time `json:"at,omitzero"`
}

// A Kind of orders. A build passes over those that it does not know.
type Kind string

// The kinds of orders.
const (
	Revoke     Kind = "revoke"
	Recheck    Kind = "recheck"
	Visibility Kind = "visibility"
	Error      Kind = "error"
	Gap        Kind = "gap"
	Terminate  Kind = "terminate"
	Reopened   Kind = "reopened"
	// Of webhook subscriptions: a record was changed, or the one that delivers is to do something.
	Changed Kind = "subscription"
	Resume  Kind = "resume"
	Replay  Kind = "replay"
	Again   Kind = "again"
	// EndReplay is not lasting: whoever takes up a shard knows no replay of its earlier owner.
	EndReplay Kind = "endReplay"
)

// To is an order about a target, with an error or without.
func To(t operator.Target, kind Kind, e *events.Error) Order {
	o := Order{Kind: kind, Target: &t}
	if e != nil {
		o.Error = objectOf(e)
	}
	return o
}

// Err is the error that the order gives; nil for none.
func (o *Order) Err() *events.Error { return errorFrom(o.Error) }

// Of is the target's id; "" for none.
func (o *Order) Of() string {
	if o.Target == nil {
		return ""
	}
	return o.Target.ID
}

// Revoked is what a revoked subscription ends with.
func Revoked() *events.Error { return events.Forbidden("access revoked") }

// objectOf and errorFrom carry an error between processes.
func objectOf(e *events.Error) *wire.ErrorObject {
	return &wire.ErrorObject{Code: wire.SEP.Code(e.Kind), Message: e.Kind.String(), Data: e.Data}
}

func errorFrom(o *wire.ErrorObject) *events.Error {
	if o == nil {
		return nil
	}
	kind, _, ok := wire.KindOf(o.Code, o.Message)
	if !ok {
		kind = wire.Internal
	}
	return &events.Error{Kind: kind, Data: o.Data}
}

// lasting reports whether a shard that is taken up has to make up for the order. What hooks decide is asked
// for anyway.
func (o *Order) lasting() bool {
	switch o.Kind {
	case Revoke, Gap, Resume, Replay:
		return true
	case Terminate:
		return o.Of() != ""
	}
	return false
}

// A Host does orders to what lives in its process.
type Host interface {
	// Do does an order. The author's hooks may be asked.
	Do(ctx context.Context, o Order) error
	// DoLive does an order to the live webhook subscriptions that pick picks.
	DoLive(ctx context.Context, o Order, pick func(*subscriber.Live) bool) error
	// Stop lets no delivery begin to what the order ends, until its turn comes: orders wait for hooks of the author
	// that others need (REP-11). It returns how many subscriptions that are.
	Stop(o Order) int
	// Changed has the record of a webhook subscription looked at.
	Changed(id string, of engine.Shard)
	// Recall makes the event type as open or closed as the store says; one that is not registered needs nothing.
	Recall(ctx context.Context, event string) error

	// The rest makes up for orders that are no longer retained. EventTypes are the registered ones, Compare looks at
	// every record again, and RecheckAll asks the hooks for all that is live.
	EventTypes() []string
	Compare(ctx context.Context) error
	RecheckAll(ctx context.Context)
}
