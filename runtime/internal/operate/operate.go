// Package operate implements the operations of operators and authors on live subscriptions: inspect, pause and end
// them, and signal errors and gaps. An [Admin] operates in its process, and gives orders (package orders) for
// subscriptions in other processes. An [Obeyer] carries out orders from other processes. The package sees the server as
// a [Host] and gets webhook subscriptions from package subscriber. It makes no compatibility promise.
package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A Host is the server to operate.
type Host interface {
	// EventTypes returns the registered event types. EventType returns the one with a name, or nil.
	EventTypes() []EventType
	EventType(name string) EventType

	// Streams and Pollers return the open connections. Stream returns the one with a number, and Poller the one with a
	// subscription; nil if not found.
	Streams() []Stream
	Stream(number uint64) Stream
	Pollers() []Connection
	Poller(subscription string) Connection

	// Visible calls the author's hook to decide whether the principal sees the event type. Refused calls all hooks for
	// a webhook subscription and returns nil if they allow it (LIST-4, AUTH-2).
	Visible(ctx context.Context, principal, event string) (bool, error)
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Deciding precedes the [Connection.Refused] calls of all live connections: it makes a poll that the hooks admitted
	// a moment ago call them once more.
	Deciding()
	// ListChanged notifies clients that their lists may have changed.
	ListChanged()
}

// An EventType is a name across its registrations. Equal values are the same type.
type EventType interface {
	eventtype.Type
	// Describe returns the current registration's description, with or without schemas; false if the type was removed.
	Describe(schemas bool) (operator.EventTypeInfo, bool)
	// EmitJSON emits an occurrence with that payload.
	EmitJSON(ctx context.Context, data json.RawMessage, o ...events.EmitOption) error
	// Close makes Refuses return e; nil reopens the type.
	Close(e *events.Error)
}

// A Connection is an open stream, or a poller between its polls.
type Connection interface {
	// Info describes the connection, without ID and Behind.
	Info() operator.Connection
	Type() eventtype.Type
	// Behind returns the number of log entries that the connection has not passed; nil if unknown.
	Behind() *int64
	// Refused returns the error with which the author's hooks now refuse the connection; nil if they allow it.
	Refused(ctx context.Context) *events.Error
	// Terminate ends a stream, or a poller's polls in flight, with the error.
	Terminate(e *events.Error)
}

// A Stream is a [Connection] that the server writes to.
type Stream interface {
	Connection
	// Number identifies the stream. Numbers are never reused.
	Number() uint64
	// Raise sends an error, or a gap if e is nil.
	Raise(e *events.Error)
}

// Processes are the processes that serve the store. An [orders.Log] implements it for several processes.
type Processes interface {
	// Tell informs the other processes of an action that this process has taken. Ask requests an action that it could
	// not take, as for a target that does not live here.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// Stamp returns the time of an order that is given now.
	Stamp(ctx context.Context) time.Time
	// CloseType makes the termination of an event type persistent, or ends it if e is nil. ClosedType returns the
	// permanent termination.
	CloseType(ctx context.Context, event string, e *events.Error) error
	ClosedType(ctx context.Context, event string) (*events.Error, error)
	// Status, OutboxAge and LastLook return this process's state in the cluster, see [cluster.Processes].
	Status() (fence uint64, owned map[string]int, ok bool)
	OutboxAge() time.Duration
	LastLook() time.Time
}

// Options configure an [Admin].
type Options struct {
	Host      Host
	Processes Processes
	// Webhooks are the server's webhook subscriptions; nil without webhook delivery.
	Webhooks *subscriber.Subscriptions
	// Store remembers actions if it can.
	Store store.Store
	// Outbox has the entries that were set aside; nil without an outbox.
	Outbox engine.Outbox
	// Dialect is the dialect of the subscriptions that an operator creates.
	Dialect wire.Dialect
	Now     func() time.Time
	Closing <-chan struct{} // closed when the server shuts down
	Log     *fault.Log
}

// An Admin implements [operator.Admin].
type Admin struct {
	o   Options
	own memory.Actions // used if the store does not remember actions

	noted auditLog
}

// New returns the operator's view of a server.
func New(o Options) *Admin { return &Admin{o: o} }

// anyWebhook picks all webhook subscriptions.
func anyWebhook(*subscriber.Live) bool { return true }

// wrapped adds the failed operation to a non-nil error.
func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
