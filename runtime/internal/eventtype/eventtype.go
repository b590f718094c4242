// Package eventtype defines the interfaces through which the server's packages access an event type: its permanent
// name, its current registration, and the arguments of a subscription to it. Package server implements them, and
// package eventtypetest does so for tests. It makes no promise of compatibility.
package eventtype

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Type is an event type's name across its registrations. Equal values are the same type.
type Type interface {
	Name() string
	// Current returns the current registration, or nil once the type is removed.
	Current() Definition
	// Topic returns the log of emitted occurrences, or nil without an emitter. Head returns the position of its
	// newest entry.
	Topic() *topic.Topic
	Head() store.Position
	// Feeds returns the feeds of its check.
	Feeds() *feed.Feeds
	// Refuses returns the error with which an operator closed the type, or nil while it is open.
	Refuses() *events.Error
}

// A Definition is one registration of an event type. It is immutable; equal values are the same definition.
type Definition interface {
	// Kernel returns the log kernel's view of the definition.
	Kernel() *topic.Type
	// Check returns its check, or nil.
	Check() *feed.Check
	// Webhooks reports whether it offers webhook delivery (LIST-3).
	Webhooks() bool
	// Changed returns the feature in which it differs incompatibly from the previous definition, or "" (EVOL-2).
	Changed() string
	// Fingerprint identifies the schemas (EVOL-4).
	Fingerprint() string
}

// Arguments holds a subscription's arguments with the definition that validated them. The zero value holds no
// arguments.
type Arguments struct {
	*topic.Arguments
	Def Definition
}

// Parse validates the raw arguments of a request; see [topic.Type.Parse].
func Parse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Parse(raw)
	return Arguments{a, d}, err
}

// Reparse validates arguments that were accepted before; see [topic.Type.Reparse].
func Reparse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Reparse(raw)
	return Arguments{a, d}, err
}

// Bare returns a copy without the compiled filter, which is kept for a poller between polls.
func (a Arguments) Bare() Arguments { return Arguments{a.Arguments.Bare(), a.Def} }

// A Subscription identifies a subscription to hooks and operators (SRV-2).
type Subscription struct {
	ID, Principal, Event, Mode string
	// Restored tells OnSubscribe about a subscription that an earlier process or a replica accepted (SUB-11,
	// REP-17).
	Restored bool
}

// Identify returns the identity of a principal's subscription to arguments in a mode. url is the callback URL, or
// "".
func Identify(mode, principal, url string, a Arguments) Subscription {
	event := a.Def.Kernel().Name
	return Subscription{ID: wire.SubscriptionID(mode, principal, url, event, a.Canonical()), Principal: principal, Event: event, Mode: mode}
}

// Behind returns the number of the log's entries after a position, or nil for a type without a log.
func Behind(t Type, passed store.Position) *int64 {
	if t.Topic() == nil {
		return nil
	}
	n := max(int64(t.Head())-int64(passed), 0)
	return &n
}
