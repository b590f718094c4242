// Package eventtype defines the interfaces of event types for the server's packages. They provide the permanent name of
// an event type, its current registration, and the arguments of its subscriptions. Package server implements them, and
// package eventtypetest implements them for tests. The package makes no compatibility promise.
package eventtype

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Type is an event type. All its registrations have the same name. Equal values represent the same type.
type Type interface {
	Name() string
	// Current returns the current registration, or nil after the type has been removed.
	Current() Definition
	// Topic returns the log of emitted occurrences, or nil without an emitter.
	Topic() *topic.Topic
	// Head returns the position of the log's newest entry.
	Head() store.Position
	// Feeds returns the feeds of its check.
	Feeds() *feed.Feeds
	// Refuses returns the error with which an operator closed the type, or nil while it is open.
	Refuses() *events.Error
}

// A Definition is one registration of an event type. It is immutable. Equal values represent the same definition.
type Definition interface {
	// Kernel returns the log kernel's view of the definition.
	Kernel() *topic.Type
	// Check returns the check of the event type, or nil if it has none.
	Check() *feed.Check
	// Webhooks reports whether the event type supports webhook delivery (LIST-3).
	Webhooks() bool
	// Changed returns the first feature that has changed incompatibly since the previous definition (EVOL-2). It
	// returns "" if nothing has changed incompatibly.
	Changed() string
	// Fingerprint identifies the schemas (EVOL-4).
	Fingerprint() string
}

// Arguments contains a subscription's arguments and the definition that validated them. The zero value contains no
// arguments.
type Arguments struct {
	*topic.Arguments
	Def Definition
}

// Parse validates the raw arguments of a request. See [topic.Type.Parse].
func Parse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Parse(raw)
	return Arguments{a, d}, err
}

// Reparse validates arguments that have already been accepted. See [topic.Type.Reparse].
func Reparse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Reparse(raw)
	return Arguments{a, d}, err
}

// Bare returns a copy of the arguments without the compiled filter. Leases of pollers store such copies.
func (a Arguments) Bare() Arguments { return Arguments{a.Arguments.Bare(), a.Def} }

// A Subscription identifies a subscription for hooks and operators (SRV-2).
type Subscription struct {
	ID, Principal, Event, Mode string
	// Restored reports whether the subscription was accepted by an earlier process or another replica (SUB-11, REP-17).
	// OnSubscribe receives it.
	Restored bool
}

// Identify returns the Subscription for a principal with the given mode, callback URL and arguments. The URL is "" if
// the subscription has no callback.
func Identify(mode, principal, url string, a Arguments) Subscription {
	event := a.Def.Kernel().Name
	return Subscription{ID: wire.SubscriptionID(mode, principal, url, event, a.Canonical()), Principal: principal, Event: event, Mode: mode}
}

// Behind returns the number of log entries after the position passed, or nil if the type has no log.
func Behind(t Type, passed store.Position) *int64 {
	if t.Topic() == nil {
		return nil
	}
	n := max(int64(t.Head())-int64(passed), 0)
	return &n
}

// A Closing is the termination of an event type by an operator.
type Closing struct {
	Err *events.Error // what requests for the type return
	operator.Termination
}
