package mcpe

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const scopeName = "github.com/mcpe-gen/mcpe-gen/runtime/mcpe"

// Stats count what became of events since the adapter was made; the metrics mcpe.notifications,
// mcpe.dropped and mcpe.handlers count the same.
type Stats struct {
	// Notified counts notifications that were handed to a connection.
	Notified int64
	// Dropped counts events that were not: by disconnection, rate or a full queue.
	Dropped int64
	// Handled and Failed count runs of handlers by how they ended.
	Handled, Failed int64
}

// Reasons of the metric mcpe.dropped.
const (
	droppedDisconnected = "disconnected"
	droppedRate         = "rate"
	droppedQueue        = "queue_full"
	droppedHandler      = "handler_queue_full"
	droppedGap          = "gap"
)

type telemetry struct {
	notified, dropped, handled, failed atomic.Int64

	notifications, drops, handlers metric.Int64Counter
}

func (t *telemetry) init(o Options) (err error) {
	m := o.Meter
	if m == nil {
		m = otel.GetMeterProvider().Meter(scopeName)
	}
	for _, c := range []struct {
		into       *metric.Int64Counter
		name, what string
	}{
		{&t.notifications, "mcpe.notifications", "MCPE notifications handed to a connection, by method."},
		{&t.drops, "mcpe.dropped", "Events that a subscription did not get, by reason."},
		{&t.handlers, "mcpe.handlers", "Runs of subscription handlers, by kind and outcome."},
	} {
		if *c.into, err = m.Int64Counter(c.name, metric.WithDescription(c.what)); err != nil {
			return err
		}
	}
	return nil
}

func (t *telemetry) notify(method string) {
	t.notified.Add(1)
	t.notifications.Add(context.Background(), 1, metric.WithAttributes(attribute.String("method", method)))
}

func (t *telemetry) drop(reason string, n int) {
	t.dropped.Add(int64(n))
	t.drops.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("reason", reason)))
}

func (t *telemetry) handle(kind, outcome string) {
	if outcome == outcomeDone {
		t.handled.Add(1)
	} else {
		t.failed.Add(1)
	}
	t.handlers.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", kind), attribute.String("outcome", outcome)))
}

// Stats returns the counts so far.
func (a *Adapter) Stats() Stats {
	t := &a.tell
	return Stats{Notified: t.notified.Load(), Dropped: t.dropped.Load(), Handled: t.handled.Load(), Failed: t.failed.Load()}
}
