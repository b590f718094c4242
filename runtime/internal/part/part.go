// Package part separates a server from its optional parts: webhooks, the other processes on a shared store, and
// operators. A server uses its parts through a [Service], and the parts use the server through a [Core]. Package durable
// implements the Service. The package makes no compatibility promise.
package part

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// A Core is a server as its parts use it.
type Core struct {
	Types   Types
	Memory  Memory
	Access  *access.Gate
	Members *lease.Members
	Leases  *lease.Leases
	Streams *streaming.Streams

	Store store.Store
	// Outbox contains occurrences for the logs of a shared store. It is nil without an outbox.
	Outbox engine.Outbox
	// EmitOnly reports whether the server only emits and does not serve clients.
	EmitOnly bool
	// Reauthorize is the interval for reauthorizing live subscriptions. If it is negative, they are not reauthorized.
	Reauthorize time.Duration
	// Dialect returns the error codes and names for a caller, who may have declared the extension.
	Dialect func(declaresExtension bool) wire.Dialect
	// Admitted is called with the result of each write of a new record, and Saved with that of each write of progress.
	Admitted func(ctx context.Context, err error)
	Saved    func(ctx context.Context, took time.Duration, err error)
	// Sequenced is called with the result of each step of the outbox, and with the zero value before the first step.
	Sequenced func(done engine.Sequenced)
	// Closing is closed when the server shuts down.
	Closing <-chan struct{}

	Log       *fault.Log
	Logger    *slog.Logger
	Telemetry telemetry.Recorder
}

// Types are the event types of a server.
type Types interface {
	// All returns the registered event types.
	All() []EventType
	// Named returns the event type with the name, or nil.
	Named(name string) EventType
	// Rejects returns the error with which Emit would reject the entry, or nil.
	Rejects(d eventtype.Definition, e *store.Entry) error
	// ListChanged notifies clients that their lists may have changed.
	ListChanged()
}

// An EventType is an event type, independent of its current registration. Equal values represent the same type.
type EventType interface {
	eventtype.Type
	// Describe returns the description of the current registration, with or without schemas. It returns false if the
	// type was removed.
	Describe(schemas bool) (operator.EventTypeInfo, bool)
	// EmitJSON emits an occurrence with the payload data.
	EmitJSON(ctx context.Context, data json.RawMessage, o ...events.EmitOption) error
	// Close makes Refuses return the error of c. If c is nil, Close reopens the type.
	Close(c *eventtype.Closing)
}

// Memory limits the memory that subscriptions of principals occupy (CAP-5).
type Memory interface {
	// Take charges n bytes to a principal. It returns an error if that would exceed the quota. Keep charges n bytes even
	// above the quota.
	Take(principal string, n int) error
	Keep(principal string, n int)
	// Give releases a charge.
	Give(principal string, n int)
}

// A Service is what the parts do for a server.
type Service interface {
	// Join begins the work of the parts, after the server has been built.
	Join() error
	// Shutdown ends the work of the parts. It waits for the work in progress until ctx ends.
	Shutdown(ctx context.Context) error
	// Now returns the common time of all processes on the store. Refresh updates it if it may be inaccurate.
	Now() time.Time
	Refresh(ctx context.Context)
	// Heard reports whether this process has read the recent requests of the other processes.
	Heard() bool
	// Ready returns the reason why the parts cannot serve requests, or nil. Touch acquires their locks.
	Ready() error
	Touch()
	// Status returns the figures for metrics. It returns false if the store has no leases.
	Status() (Status, bool)

	// Changes returns the features that changed incompatibly between two registrations of a type, the first one first. It
	// also returns the text of the first change.
	Changes(old, now wire.Descriptor) (features []string, first string)
	// Note records the registration of an event type and its outcome in the audit log.
	Note(ctx context.Context, event, outcome string) error
	// Restore resumes the stored subscriptions of a newly registered type, calls restored, and opens or closes the type
	// as stored.
	Restore(ctx context.Context, et EventType, restored func()) error
	// Reopen ends, in all processes, the termination of a type that is being registered.
	Reopen(ctx context.Context, et EventType) error
	// Added announces a type to the other processes. Redefined and Removed also adapt or end its subscriptions.
	Added(et EventType)
	Redefined(et EventType) error
	Removed(et EventType)

	// KeySet serves the public keys for webhook signatures as a JWK set (HOOK-10).
	KeySet() http.Handler
	// Subscribe serves events/subscribe after the checks of the principal and the type. Unsubscribe reports whether the
	// subscription existed or may be missing.
	Subscribe(ctx context.Context, s *Subscribe) (json.RawMessage, error)
	Unsubscribe(ctx context.Context, id string) (ok bool, err error)
	// Each calls f for each live webhook subscription.
	Each(f func(eventtype.Subscription))

	// Revoke, Reauthorize and RefreshVisibility recheck the live subscriptions in all processes.
	Revoke(ctx context.Context, principal string, names []string) error
	Reauthorize(ctx context.Context, principal string, names []string) error
	RefreshVisibility(ctx context.Context) error
	// Admin returns the interface for operators.
	Admin() operator.Admin
}

// A Subscribe is a request to subscribe a callback to an event type.
type Subscribe struct {
	Type       EventType
	Definition eventtype.Definition
	Params     *wire.SubscribeParams
	Request    *port.Request
}

// A Status contains the figures of a process on a shared store.
type Status struct {
	Fence     uint64         // of the process's lease, or 0 if it has none
	Owned     map[string]int // number of owned shards per topic
	OutboxAge time.Duration  // how long the oldest occurrence had waited when this process last read the outbox
	LastLook  time.Time      // at the control log
}
