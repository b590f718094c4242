// Package cluster shows one process the processes that serve the same store ([Processes]): which parts of the work are
// its own, what time it is, what the others are told, and which schemas they have. On a store that processes share, they
// are [Many]; on any other store there is one, this one. It makes no promise of compatibility.
package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Processes are the processes that serve the store.
type Processes interface {
	// Records are the store's with what their deliveries need to know of the processes.
	Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error)
	// Join makes the server one of them, with the webhook subscriptions of those records, nil for none.
	Join(w *subscriber.Subscriptions) error
	// Hurry lets the others know soon of what is registered.
	Hurry()
	// Serve has the webhook subscriptions of a type delivered that is registered. restored is called when those
	// have been restored that were stored.
	Serve(et eventtype.Type, restored func()) error
	// Shutdown gives everything away, as long as ctx allows.
	Shutdown(ctx context.Context) error
	// LastLook is when the last look at the orders of others began after which all were known; zero for never.
	LastLook() time.Time
	// Status returns the fence of the process's lease, 0 while it has none, and how many shards it owns of each topic; ok is
	// false where there is no lease to have.
	Status() (fence uint64, owned map[string]int, ok bool)
	// OutboxAge is for how long the oldest occurrence has waited in the outbox, by the last look at it that this process
	// took, or may have where looks fail.
	OutboxAge() time.Duration

	// Now is the time of all of them, and Refresh asks for it where it may have become wrong.
	Now() time.Time
	Refresh(ctx context.Context)

	// Tell tells the others of what was done here, and Ask asks somebody to do what was not, as for a target that
	// does not live here.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// CloseType makes the termination of an event type last, or ends it where e is nil; ClosedType is the one that lasts.
	// RecallLater has it looked at again.
	CloseType(ctx context.Context, event string, e *events.Error) error
	ClosedType(ctx context.Context, event string) (*events.Error, error)
	RecallLater(event string)
}

// A Host is the server whose processes they are.
type Host interface {
	// EventTypes are the registered event types, and Type is the one of a name.
	EventTypes() []eventtype.Type
	Type(event string) (eventtype.Type, bool)
	// Descriptor is what events/list says of a definition.
	Descriptor(d eventtype.Definition) wire.Descriptor
	// Refuses is why Emit would not append such an entry; nil when it would.
	Refuses(d eventtype.Definition, e *store.Entry) error
	// Obeyer does what other processes have ordered in that log.
	Obeyer(l *orders.Log) orders.Host
	// Sequenced is told what each look at the outbox came to, and of nothing before the first.
	Sequenced(done engine.Sequenced)
}

// Options configure [Processes].
type Options struct {
	Host  Host
	Store store.Store
	// Outbox has what is to be moved to the logs of a store that processes share; nil for none.
	Outbox engine.Outbox
	// EmitOnly is set in a process that serves nobody.
	EmitOnly bool
	// Name is what logs call the process; default the host's name and the process id.
	Name string
	// Lease is how long the others wait for a process that has died, and how long no process has to have had the schemas
	// that a subscription was accepted under before it ends, where they have changed incompatibly (REP-16); default 10 s,
	// at least 1 s.
	Lease  time.Duration
	Log    *fault.Log
	Logger *slog.Logger
}

const (
	// Shards is how many shards the webhook subscriptions of a new event type get.
	Shards = 16

	// orphans is how long no process has to have registered an event type before the webhook subscriptions to it end
	// as those of a removed one do (EVOL-1).
	orphans = time.Minute

	defaultLease = 10 * time.Second
	minLease     = time.Second // leaves room for renewals
)

// New returns the processes of the store.
func New(ctx context.Context, o Options) (Processes, error) {
	shared, ok := o.Store.(engine.Shared)
	if !ok {
		return newOne(o), nil
	}
	c := &Many{o: o, store: shared, clock: &clock{store: shared}}
	return c, c.clock.ask(ctx)
}
