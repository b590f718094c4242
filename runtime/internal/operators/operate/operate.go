// Package operate implements the operations of operators and authors on live subscriptions. These operations inspect,
// pause and end subscriptions, and signal errors and gaps. An [Admin] operates on subscriptions in its own process and
// sends orders (package orders) for subscriptions in other processes. An [Obeyer] executes orders from other processes.
// The package accesses the server through a [Host] and webhook subscriptions through package subscriber. It makes no
// compatibility promise.
package operate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Host is the server that an [Admin] operates.
type Host interface {
	// EventTypes returns the registered event types.
	EventTypes() []part.EventType
	// EventType returns the event type with the name, or nil.
	EventType(name string) part.EventType

	// Streams and Pollers return the open connections.
	Streams() []Stream
	// Stream returns the stream with the number, and Poller returns the poller of the subscription. Both return nil if
	// the connection does not exist.
	Stream(number uint64) Stream
	Pollers() []Connection
	Poller(subscription string) Connection

	// IsHidden calls the author's hook to decide whether the event type is hidden from the principal.
	IsHidden(ctx context.Context, principal, event string) bool
	// Refused calls all hooks for a webhook subscription and returns nil if they allow it (LIST-4, AUTH-2).
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Deciding is called before the [Connection.Refused] calls for all live connections. It makes a poll that the hooks
	// have just admitted call them once more.
	Deciding()
	// ListChanged notifies clients that their lists may have changed.
	ListChanged()
}

// A Connection is an open stream or a poller between two polls.
type Connection interface {
	part.Connection
	Type() eventtype.Type
	// Behind returns the number of log entries that the connection has not passed, or nil if the number is unknown.
	Behind() *int64
	// Hold stops the writes of occurrences until Terminate is called. It calls no hook.
	Hold()
}

// A Stream is a [Connection] to which the server writes.
type Stream interface {
	Connection
	// Number identifies the stream. Numbers are never reused.
	Number() uint64
	// Raise sends the error e, or a gap if e is nil.
	Raise(e *events.Error)
}

// Processes represents the processes that serve the store. For several processes, [cluster.Many] implements it.
type Processes interface {
	// Tell notifies the other processes of an action that this process has performed. Ask requests an action that it
	// could not perform, for example because the target is live in another process.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// Request returns the position of a new revocation or gap, which covers the subscriptions that any process has admitted
	// before the call. If it fails, the position covers the admissions of this process.
	Request(ctx context.Context) (store.ControlPosition, error)
	// CloseType stores the termination of an event type, or deletes it if c is nil.
	CloseType(ctx context.Context, event string, c *eventtype.Closing) error
	// ClosedType returns the stored termination.
	ClosedType(ctx context.Context, event string) (*eventtype.Closing, error)
	// Status, OutboxAge and LastLook return this process's state in the cluster. See [cluster.Processes].
	Status() (fence uint64, owned map[string]int, ok bool)
	OutboxAge() time.Duration
	LastLook() time.Time
	// Conflicts returns the event types with incompatible schemas in different replicas of the cluster.
	Conflicts(of engine.Cluster) ([]operator.SchemaConflict, error)
}

// Options configures an [Admin].
type Options struct {
	Host      Host
	Processes Processes
	// Webhooks contains the server's webhook subscriptions. It is nil if the server does not support webhook delivery.
	Webhooks *subscriber.Subscriptions
	Store    store.Store // of the server
	// Outbox contains the rejected entries. It is nil if the server has no outbox.
	Outbox engine.Outbox
	// Dialect is the dialect of subscriptions that an operator creates.
	Dialect wire.Dialect
	Now     func() time.Time
	Closing <-chan struct{} // closed when the server shuts down
	Log     *fault.Log
}

// An Admin implements [operator.Admin].
type Admin struct {
	o Options

	auditLog auditStore

	closing  sync.Mutex    // held while a type is opened or closed
	closings atomic.Uint64 // number of times that a type was opened or closed
}

// New returns an Admin for the server o.Host.
func New(o Options) *Admin { return &Admin{o: o} }

// anyWebhook is a filter that matches all webhook subscriptions.
func anyWebhook(*subscriber.Live) bool { return true }

// wrapError adds the name of the failed operation to a non-nil error.
func wrapError(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
