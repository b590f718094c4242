package mcpe

import (
	"context"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Stats contains counts since the adapter was created. Options.Telemetry receives the same counts.
type Stats struct {
	// Notified counts notifications that a connection accepted.
	Notified int64
	// Dropped counts events lost because of a disconnection, a rate limit, a full queue, a gap or a refusal.
	Dropped int64
	// Handled and Failed count successful and failed handler runs.
	Handled, Failed int64
}

// Reasons for dropped events, used as failures of telemetry.MCPEDropped.
const (
	droppedDisconnected = "disconnected"
	droppedRate         = "rate"
	droppedQueue        = "queue_full"
	droppedHandler      = "handler_queue_full"
	droppedGap          = "gap"
	droppedRefused      = "refused"
)

type metrics struct {
	recorder                           telemetry.Recorder
	notified, dropped, handled, failed atomic.Int64
}

func (t *metrics) notify(method string) {
	t.notified.Add(1)
	t.recorder.Record(context.Background(), telemetry.Series{Kind: telemetry.MCPENotifications, Detail: method}, 1)
}

func (t *metrics) drop(reason string, n int) {
	if n == 0 {
		return
	}
	t.dropped.Add(int64(n))
	t.recorder.Record(context.Background(), telemetry.Series{Kind: telemetry.MCPEDropped, Failure: reason}, float64(n))
}

func (t *metrics) handle(kind, outcome string) {
	if outcome == outcomeDone {
		t.handled.Add(1)
	} else {
		t.failed.Add(1)
	}
	t.recorder.Record(context.Background(), telemetry.Series{Kind: telemetry.MCPEHandlers, Outcome: outcome, Detail: kind}, 1)
}

// Stats returns the current counts.
func (a *Adapter) Stats() Stats {
	t := &a.tell
	return Stats{Notified: t.notified.Load(), Dropped: t.dropped.Load(), Handled: t.handled.Load(), Failed: t.failed.Load()}
}
