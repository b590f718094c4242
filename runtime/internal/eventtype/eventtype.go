// Package eventtype has the interfaces by which the rooms of the server see an event type: its lasting name, its current
// registration, and the arguments of a subscription to it. Package server implements them, and package eventtypetest
// does so for tests. It makes no promise of compatibility.
package eventtype

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Type is one name over its registrations. Equal ones are the same type.
type Type interface {
	Name() string
	// Current is the present registration; nil when the type is removed.
	Current() Definition
	// Topic is the log of what is emitted, nil without an emitter, and Head the position of its newest
	// entry.
	Topic() *topic.Topic
	Head() store.Position
	// Feeds are those of its checks.
	Feeds() *feed.Feeds
	// Refuses is the error with which an operator has closed the type; nil when it is open.
	Refuses() *events.Error
}

// A Definition is one registration of an event type. It never changes; equal ones are the same.
type Definition interface {
	// Kernel is what the log kernel knows of it.
	Kernel() *topic.Type
	// Check is its check; nil without one.
	Check() *feed.Check
	// Webhooks reports whether it offers webhook (LIST-3).
	Webhooks() bool
	// Changed is the feature in which it differs incompatibly from the definition before it, "" for none
	// (EVOL-2).
	Changed() string
	// Fingerprint identifies the schemas (EVOL-4).
	Fingerprint() string
}

// Arguments are a subscription's, with the definition that they are valid under. The zero value is none.
type Arguments struct {
	*topic.Arguments
	Def Definition
}

// Parse validates the raw arguments of a request; see [topic.Type.Parse].
func Parse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Parse(raw)
	return Arguments{a, d}, err
}

// Reparse takes over arguments that were accepted before; see [topic.Type.Reparse].
func Reparse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Reparse(raw)
	return Arguments{a, d}, err
}

// Bare returns arguments that can do no more than be decoded: what is kept of a poller.
func (a Arguments) Bare() Arguments { return Arguments{a.Arguments.Bare(), a.Def} }

// A Subscription is what identifies a subscription to hooks and operators (SRV-2).
type Subscription struct {
	ID, Principal, Event, Mode string
	// Restored tells OnSubscribe that the subscription was accepted before, by an earlier process or by
	// another one (SUB-11, REP-17).
	Restored bool
}

// Identify names the subscription of a principal to arguments in a mode. url is the callback's, "" where there is none.
func Identify(mode, principal, url string, a Arguments) Subscription {
	event := a.Def.Kernel().Name
	return Subscription{ID: wire.SubscriptionID(mode, principal, url, event, a.Canonical()), Principal: principal, Event: event, Mode: mode}
}

// Behind is how many entries of the type's log are after a position; nil where it has no log.
func Behind(t Type, passed store.Position) *int64 {
	if t.Topic() == nil {
		return nil
	}
	n := max(int64(t.Head())-int64(passed), 0)
	return &n
}
