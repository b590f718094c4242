// Package cluster gives a process its view of the processes that serve the same store ([Processes]). The view has its
// share of the work, the common time, messages to the other processes, and the schemas that they serve. If the store
// can be shared, they are [Many]; otherwise there is only this process. The package makes no promise of
// compatibility.
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
	// Records returns the store's subscription records, and the view of the processes that their deliveries need.
	Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error)
	// Join adds this server to the processes. It delivers for the subscriptions w; nil for none.
	Join(w *subscriber.Subscriptions) error
	// Hurry announces the registered event types soon.
	Hurry()
	// Serve starts delivery for the webhook subscriptions of a registered type. It calls restored when the stored
	// ones are restored.
	Serve(et eventtype.Type, restored func()) error
	// Shutdown releases all shards, until ctx ends.
	Shutdown(ctx context.Context) error
	// LastLook returns the start of the last look at the orders of other processes after which all were known; zero
	// for never.
	LastLook() time.Time
	// Status returns the fence of the process's lease, 0 if it has none, and the number of shards that it owns per
	// topic. ok is false if the store has no leases.
	Status() (fence uint64, owned map[string]int, ok bool)
	// OutboxAge returns how long the oldest occurrence has waited in the outbox, by this process's last look; if
	// looks fail, how long it may have waited.
	OutboxAge() time.Duration

	// Now returns the common time, and Refresh updates it if it may be wrong.
	Now() time.Time
	Refresh(ctx context.Context)
	// Stamp returns Now after Refresh.
	Stamp(ctx context.Context) time.Time

	// Tell informs the other processes of an action that this process has done. Ask requests an action that this
	// process could not do, for example for a subscription that does not live here.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// CloseType makes the termination of an event type permanent, or ends it if e is nil. ClosedType returns the
	// permanent termination. RecallLater schedules a read of it.
	CloseType(ctx context.Context, event string, e *events.Error) error
	ClosedType(ctx context.Context, event string) (*events.Error, error)
	RecallLater(event string)
}

// A Host is the server for which Processes acts.
type Host interface {
	// EventTypes returns the registered event types, and Type returns one by name.
	EventTypes() []eventtype.Type
	Type(event string) (eventtype.Type, bool)
	// Descriptor returns the descriptor of a definition in events/list.
	Descriptor(d eventtype.Definition) wire.Descriptor
	// Refuses returns why Emit would reject the entry, or nil.
	Refuses(d eventtype.Definition, e *store.Entry) error
	// Obeyer returns the host that executes orders of other processes in that log.
	Obeyer(l *orders.Log) orders.Host
	// Sequenced receives the result of each step of the outbox, and the zero value before the first.
	Sequenced(done engine.Sequenced)
}

// Options configure [Processes].
type Options struct {
	Host  Host
	Store store.Store
	// Outbox holds occurrences for the logs of a shared store; nil for none.
	Outbox engine.Outbox
	// EmitOnly is set in a process that does not serve clients.
	EmitOnly bool
	// Name is the process's name in logs; default the host's name and the process id.
	Name string
	// Lease is how long other processes wait for a process that has died. It is also how long the schemas of a
	// subscription must be absent from all processes before it ends, if they have changed incompatibly (REP-16).
	// Default 10 s, at least 1 s.
	Lease  time.Duration
	Log    *fault.Log
	Logger *slog.Logger
}

const (
	// Shards is the number of shards for the webhook subscriptions of a new event type.
	Shards = 16

	// orphans is how long an event type must be registered nowhere before its webhook subscriptions end like those of
	// a removed type (EVOL-1).
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
