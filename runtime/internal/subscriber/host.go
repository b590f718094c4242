package subscriber

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Host is the server whose subscriptions they are.
type Host interface {
	// Type is the event type of that name; false when none is registered.
	Type(event string) (EventType, bool)

	// Join makes a subscription a member: it asks OnSubscribe. Leave ends that (SRV-3).
	Join(ctx context.Context, sub Identity, a Arguments) error
	Leave(sub Identity, a Arguments)
	// Release ends a membership of a subscription that goes on in another process: nobody is asked.
	Release(sub Identity, a Arguments)
	// Refused asks the author's hooks again for a live subscription; nil when they let it be (AUTH-2).
	// Asks reports whether there are any to ask.
	Refused(ctx context.Context, principal string, a Arguments) *events.Error
	Asks(a Arguments) bool

	// Take charges a principal with n bytes, or refuses (CAP-5). Keep charges whatever the bounds say,
	// and Give takes a charge back.
	Take(principal string, n int) error
	Keep(principal string, n int)
	Give(principal string, n int)
}

// An EventType is one name over its registrations. Equal ones are the same type.
type EventType interface {
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

// Arguments are a subscription's, with the definition that they are valid under.
type Arguments struct {
	*topic.Arguments
	Def Definition
}

// parse validates the raw arguments of a request, and reparse takes over ones that were accepted
// before; see [topic.Type].
func parse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Parse(raw)
	return Arguments{a, d}, err
}

func reparse(d Definition, raw json.RawMessage) (Arguments, error) {
	a, err := d.Kernel().Reparse(raw)
	return Arguments{a, d}, err
}

// An Identity is what identifies a webhook subscription to hooks and operators.
type Identity struct {
	ID, Principal, Event string
	// Restored tells OnSubscribe that the subscription was accepted before, by an earlier process or by
	// another one (SUB-11, REP-17).
	Restored bool
}

func identityOf(r *store.Subscription) Identity {
	return Identity{ID: r.ID, Principal: r.Principal, Event: r.Event}
}

// Options are what subscriptions are kept by.
type Options struct {
	Host    Host
	Store   Records
	Cluster *Cluster
	// Durable tells that the store outlives the process.
	Durable bool
	// Guard sends everything; Shutdown closes it.
	Guard *netguard.Guard
	Terms Terms
	// Grace is how long deliveries are signed with a replaced secret too; negative for not at all
	// (SUB-5).
	Grace  time.Duration
	Quota  Quota
	Verify verify.Options
	// Delivery are the engine's; Sender, Ended and Gapped are set here.
	Delivery delivery.Options
	// Reauthorize is the interval at which the hooks are asked again; 0 or less: never (AUTH-2).
	Reauthorize time.Duration
	Log         *fault.Log
	// Saved is told how long the store took for progress; nil for nobody.
	Saved func(ctx context.Context, took time.Duration, err error)
}

// A Quota bounds how many subscriptions there are; a negative number is no bound (SUB-8).
type Quota struct{ PerPrincipal, Total int }

// Terms are what a subscriber may be granted until it has to refresh (SUB-6).
type Terms struct {
	Min, Default, Max time.Duration
	// NoExpiry grants no end to who asks for none.
	NoExpiry bool
}

// Until answers ttlMs (SUB-6): the end of the grant, zero for none. Nothing is ever refused and
// nothing overflows: the wish is clamped before it is counted in nanoseconds.
func (t *Terms) Until(ms *int64, forever bool, now time.Time) time.Time {
	ttl := t.Default
	switch {
	case forever && t.NoExpiry:
		return time.Time{}
	case forever:
		ttl = t.Max
	case ms != nil && *ms <= 0:
		ttl = t.Min
	case ms != nil:
		ttl = min(max(topic.Milliseconds(*ms), t.Min), t.Max)
	}
	// The response tells it in milliseconds: what is told is what holds.
	return now.Add(ttl).Truncate(time.Millisecond)
}
