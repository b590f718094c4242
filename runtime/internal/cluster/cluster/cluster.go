// Package cluster gives a process access to all processes that serve the same store. The interface [Processes] provides
// the process's share of the work, the common time, messages to the other processes, and the schemas that they serve.
// If the store can be shared, [Many] implements it. Otherwise [Single] implements it and represents only this process.
// The package makes no compatibility promise.
package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Processes represents the processes that serve the store.
type Processes interface {
	// Records returns the store's subscription records and the view of the processes that is needed for deliveries.
	Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error)
	// Join adds this server to the processes. The server then delivers to the subscriptions of w, which may be nil.
	Join(w *subscriber.Subscriptions) error
	// Hurry triggers an early announcement of the registered event types.
	Hurry()
	// Serve starts deliveries to the webhook subscriptions of a registered type. It calls restored after the stored
	// subscriptions have been restored.
	Serve(et eventtype.Type, restored func()) error
	// Shutdown releases all shards. It waits for the work in progress until ctx ends.
	Shutdown(ctx context.Context) error
	// Heard reports whether this process has read the recent orders of the other processes. See [orders.Log.Heard].
	Heard() bool
	// LastLook returns the start of the last look at the control log after which all orders of other processes were
	// read. It returns zero before the first such look.
	LastLook() time.Time
	// Status returns the fence of the process's lease, or 0 if it has none, and the number of owned shards per topic.
	// If the store has no leases, ok is false.
	Status() (fence uint64, owned map[string]int, ok bool)
	// OutboxAge returns how long the oldest occurrence had waited in the outbox when this process last read it. If
	// reads fail, it returns how long an occurrence may have waited.
	OutboxAge() time.Duration

	// Conflicts returns the event types with incompatible schemas in different replicas of the cluster.
	Conflicts(of engine.Cluster) ([]operator.SchemaConflict, error)

	// Now returns the common time. Refresh updates it if it may be inaccurate.
	Now() time.Time
	Refresh(ctx context.Context)

	// Request returns the position of a new revocation or gap, which covers the subscriptions that any process has admitted
	// before the call. If it fails, the position covers the admissions of this process.
	Request(ctx context.Context) (store.ControlPosition, error)
	// Tell notifies the other processes of an action that this process has performed. Ask requests an action that this
	// process could not perform, for example because the subscription is live in another process.
	Tell(ctx context.Context, o orders.Order) error
	Ask(ctx context.Context, o orders.Order) error
	// CloseType stores the termination of an event type, or deletes it if c is nil.
	CloseType(ctx context.Context, event string, c *eventtype.Closing) error
	// ClosedType returns the stored termination. RecallLater schedules a read of it.
	ClosedType(ctx context.Context, event string) (*eventtype.Closing, error)
	RecallLater(event string)
}

// A Host is the server that uses Processes.
type Host interface {
	// EventTypes returns the registered event types.
	EventTypes() []eventtype.Type
	// Type returns the event type with the name.
	Type(event string) (eventtype.Type, bool)
	// Refuses returns the error with which Emit would reject the entry, or nil.
	Refuses(d eventtype.Definition, e *store.Entry) error
	// Obeyer returns the host that executes the orders of other processes in the log.
	Obeyer(l *orders.Log) orders.Host
	// Sequenced is called with the result of each step of the outbox, and with the zero value before the first step.
	Sequenced(done engine.Sequenced)
	// Report returns the figures of this process for operators.
	Report() json.RawMessage
}

// Options configures [Processes].
type Options struct {
	Host  Host
	Store store.Store
	// Outbox contains occurrences for the logs of a shared store. It is nil without an outbox.
	Outbox engine.Outbox
	// EmitOnly reports whether the process only emits and does not serve clients.
	EmitOnly bool
	// Name is the process's name in logs and reports.
	Name string
	// Lease is the time that other processes wait before they take over the work of a crashed process. If the schemas
	// of a subscription have changed incompatibly, the subscription also continues for this time after the last process
	// that serves them has stopped (REP-16). The default is 10 seconds and the minimum 1 second.
	Lease  time.Duration
	Log    *fault.Log
	Logger *slog.Logger
}

const (
	// Shards is the number of shards for the webhook subscriptions of a new event type.
	Shards = 16

	// orphanTime is the time after which webhook subscriptions end if no process has registered their event type
	// (EVOL-1).
	orphanTime = time.Minute

	defaultLease = 10 * time.Second
	minLease     = time.Second // leaves room for renewals
)

// New returns the Processes for the store.
func New(ctx context.Context, o Options) (Processes, error) {
	shared, ok := o.Store.(engine.Shared)
	if !ok {
		return newSingle(o), nil
	}
	c := &Many{o: o, store: shared, clock: &clock{store: shared}}
	return c, c.clock.queryTime(ctx)
}
