// Package operate is what operators and authors do with what is live on a server: they look at it, hold it back, tell it
// of errors and gaps, and end it. An [Admin] does that in its process, and gives an order (package orders) for what may
// live in other processes. An [Obeyer] does the orders that others have given. What the package knows of the server is a
// [Host]; webhook subscriptions are those of package subscriber. It makes no promise of compatibility.
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

// A Host is the server that is operated.
type Host interface {
	// EventTypes are the registered event types, and EventType is the one of a name, nil for none.
	EventTypes() []EventType
	EventType(name string) EventType

	// Streams and Pollers are who is connected. Stream is the one of a number and Poller the one of a subscription; nil
	// for none.
	Streams() []Stream
	Stream(number uint64) Stream
	Pollers() []Connection
	Poller(subscription string) Connection

	// Visible asks the author's hook whether the principal sees the event type. Refused asks all hooks again for a
	// webhook subscription; nil when they let it be (LIST-4, AUTH-2).
	Visible(ctx context.Context, principal, event string) (bool, error)
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Deciding comes before [Connection.Refused] of all that is live: a poll that the hooks let in a moment ago calls them
	// once more.
	Deciding()
	// ListChanged tells clients that their lists may have changed.
	ListChanged()
}

// An EventType is one name over its registrations. Equal ones are the same type.
type EventType interface {
	eventtype.Type
	// Describe is what its present registration says, with the schemas or without; false when the type is removed.
	Describe(schemas bool) (operator.EventTypeInfo, bool)
	// EmitJSON emits an occurrence with that payload.
	EmitJSON(ctx context.Context, data json.RawMessage, o ...events.EmitOption) error
	// Close makes Refuses return e; nil opens the type.
	Close(e *events.Error)
}

// A Connection is an open stream, or a poller that may come again.
type Connection interface {
	// Info describes it, without ID and Behind.
	Info() operator.Connection
	Type() eventtype.Type
	// Behind is how many entries of the type's log it has not passed; nil where that is not known.
	Behind() *int64
	// Refused returns what the author's hooks refuse it with now; nil if they do not.
	Refused(ctx context.Context) *events.Error
	// Terminate ends it with the error: a stream, or the polls under way of a poller.
	Terminate(e *events.Error)
}

// A Stream is a [Connection] to which the server writes.
type Stream interface {
	Connection
	// Number tells it from all others that there have been.
	Number() uint64
	// Raise tells it of an error, or of a gap where e is nil.
	Raise(e *events.Error)
}

// Processes are the processes that serve the store. An [orders.Log] is where they are several.
type Processes interface {
	// Tell tells the others of what was done here, and Ask asks somebody to do what was not, as for a target that does
	// not live here.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// CloseType makes the termination of an event type last, or ends it where e is nil. ClosedType is the one that
	// lasts.
	CloseType(ctx context.Context, event string, e *events.Error) error
	ClosedType(ctx context.Context, event string) (*events.Error, error)
	// Status, OutboxAge and LastLook are how this process is among them, see [cluster.Processes].
	Status() (fence uint64, owned map[string]int, ok bool)
	OutboxAge() time.Duration
	LastLook() time.Time
}

// Options are what an [Admin] works with.
type Options struct {
	Host      Host
	Processes Processes
	// Webhooks are the server's; nil without webhook delivery.
	Webhooks *subscriber.Subscriptions
	// Store may remember actions.
	Store store.Store
	// Outbox has what was put aside; nil for none.
	Outbox engine.Outbox
	// Attempts is where attempts to deliver are kept, and Kept how many of one subscription; nil where none are.
	Attempts engine.Attempts
	Kept     int
	// Dialect is that of subscriptions that an operator makes.
	Dialect wire.Dialect
	Now     func() time.Time
	// Go runs f beside the caller until the server is shut down, which waits for it; false after that.
	Go      func(f func()) bool
	Closing <-chan struct{} // when the server is shut down
	Log     *fault.Log
}

// An Admin implements [operator.Admin].
type Admin struct {
	o   Options
	own memory.Actions // where the store remembers none

	tasks   tasks
	replays replays
	noted   auditLog
	sending sends
}

// New makes the operator's view of a server.
func New(o Options) *Admin { return &Admin{o: o} }

// anyWebhook picks all webhook subscriptions.
func anyWebhook(*subscriber.Live) bool { return true }

// wrapped says what failed, if anything did.
func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
