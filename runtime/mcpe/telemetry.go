package mcpe

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
)

const scopeName = "github.com/mcpe-gen/mcpe-gen/runtime/mcpe"

// Stats contains counts since the adapter was created. The metrics mcp.events.mcpe.notifications, .dropped and
// .handlers report the same counts.
type Stats struct {
	// Notified counts notifications that a connection accepted.
	Notified int64
	// Dropped counts events lost because of a disconnection, a rate limit, a full queue, a gap or a refusal.
	Dropped int64
	// Handled and Failed count successful and failed handler runs.
	Handled, Failed int64
}

// Reasons for dropped events, used as error types of the metric mcp.events.mcpe.dropped.
const (
	droppedDisconnected = "disconnected"
	droppedRate         = "rate"
	droppedQueue        = "queue_full"
	droppedHandler      = "handler_queue_full"
	droppedGap          = "gap"
	droppedRefused      = "refused"
)

type metrics struct {
	notified, dropped, handled, failed atomic.Int64

	notifications, drops, handlers metric.Int64Counter
}

func (t *metrics) init(o Options) (err error) {
	i := telemetry.New(telemetry.Meter(o.Meter, scopeName))
	t.notifications = i.Counter("mcpe.notifications", "{notification}", "MCPE notifications handed to a connection.")
	t.drops = i.Counter("mcpe.dropped", "{event}", "Events that an MCPE subscription did not get.")
	t.handlers = i.Counter("mcpe.handlers", "{run}", "Runs of handlers of MCPE subscriptions.")
	return i.Err()
}

func (t *metrics) notify(method string) {
	t.notified.Add(1)
	t.notifications.Add(context.Background(), 1, metric.WithAttributes(telemetry.MethodName.String(method)))
}

func (t *metrics) drop(reason string, n int) {
	if n == 0 {
		return
	}
	t.dropped.Add(int64(n))
	t.drops.Add(context.Background(), int64(n), metric.WithAttributes(telemetry.ErrorType.String(reason)))
}

func (t *metrics) handle(kind, outcome string) {
	if outcome == outcomeDone {
		t.handled.Add(1)
	} else {
		t.failed.Add(1)
	}
	t.handlers.Add(context.Background(), 1, metric.WithAttributes(telemetry.Handler.String(kind), telemetry.Outcome.String(outcome)))
}

// Stats returns the current counts.
func (a *Adapter) Stats() Stats {
	t := &a.tell
	return Stats{Notified: t.notified.Load(), Dropped: t.dropped.Load(), Handled: t.handled.Load(), Failed: t.failed.Load()}
}
