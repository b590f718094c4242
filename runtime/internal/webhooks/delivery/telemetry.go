package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Outcomes of settled occurrences.
const (
	outcomeAcknowledged = "acknowledged"
	outcomeAbandoned    = "abandoned" // after its last attempt
	outcomeLost         = "lost"      // it could no longer be read or encoded
)

// Outcomes of attempts.
const (
	outcomeAccepted = "accepted"
	outcomeFailed   = "failed"
)

// envelopeEvent is the envelope type of an occurrence.
const envelopeEvent = "event"

// observedKinds are the kinds that observe reports.
var observedKinds = []telemetry.Kind{telemetry.DeliveriesInFlight, telemetry.WebhookSubscriptions, telemetry.WebhookLag}

// observe reports the engine's current values.
func (e *Engine) observe(report func(telemetry.Series, float64)) {
	c := e.Census()
	report(telemetry.Series{Kind: telemetry.DeliveriesInFlight}, float64(c.InFlight))
	for state, n := range c.States {
		report(telemetry.Series{Kind: telemetry.WebhookSubscriptions, Detail: string(state)}, float64(n))
	}
	for event, n := range c.Lag {
		report(telemetry.Series{Kind: telemetry.WebhookLag, Type: event}, float64(n))
	}
}

// A Census contains the current values of an [Engine].
type Census struct {
	// InFlight is the number of attempts in flight.
	InFlight int
	// States and Types count the subscriptions by state and by event type.
	States map[operator.State]int
	Types  map[string]int
	// Abandoned counts the occurrences abandoned in the last hour by event type.
	Abandoned map[string]int
	// Lag is the number of log entries that the slowest subscription of an event type lags behind. It is not set for a
	// type without a log in the store.
	Lag map[string]int64
}

// Census returns the current values. It visits all subscriptions.
func (e *Engine) Census() Census {
	c := Census{States: map[operator.State]int{operator.StateActive: 0, operator.StateSuspended: 0, operator.StatePaused: 0}, Types: map[string]int{},
		Abandoned: map[string]int{}, Lag: map[string]int64{}}
	heads, now := map[*Log]store.Position{}, e.now()
	e.mu.Lock()
	c.InFlight = e.flying
	for shard := range e.shards {
		for l := range shard.logs {
			heads[l] = 0
		}
	}
	e.mu.Unlock()
	for l := range heads {
		heads[l] = l.head()
	}
	e.visitHandles(func(h *Handle) {
		if h.hasEnded() {
			return
		}
		switch {
		case h.pausedAt != 0:
			c.States[operator.StatePaused]++
		case h.isSuspended():
			c.States[operator.StateSuspended]++
		default:
			c.States[operator.StateActive]++
		}
		if f := h.failures; f != nil {
			c.Abandoned[h.event] += f.abandoned.LastHour(now)
		}
		if c.Types[h.event]++; h.log == nil {
			return
		}
		behind := int64(0)
		if base, head := h.marks.Base(), heads[h.log]; !h.isQuiet() && head > base {
			behind = int64(head - base)
		}
		c.Lag[h.event] = max(c.Lag[h.event], behind)
	})
	return c
}

// countOutcome counts a settled occurrence. The caller must hold the engine's lock.
func (e *Engine) countOutcome(h *Handle, outcome, category string) {
	e.o.Telemetry.Record(e.base, telemetry.Series{Kind: telemetry.Deliveries, Type: h.event, Outcome: outcome, Failure: category}, 1)
}

// beginAttempt reports the beginning of an attempt. The returned function reports its result and duration.
func (e *Engine) beginAttempt(ctx context.Context, h *Handle, kind string, number int) (context.Context, func(attemptResult)) {
	start := time.Now()
	if kind == "" {
		kind = envelopeEvent
	}
	recorder := e.o.Telemetry
	ctx = recorder.Begin(ctx, telemetry.Attempt{Series: telemetry.Series{Kind: telemetry.Delivery, Type: h.event, Detail: kind}, Number: number, Subscription: h.id})
	return ctx, func(r attemptResult) {
		category := string(r.category)
		recorder.End(ctx, category)
		if r.aborted || r.at.IsZero() { // canceled by the engine, or never sent
			return
		}
		outcome := outcomeAccepted
		if category != "" {
			outcome = outcomeFailed
		}
		recorder.Record(ctx, telemetry.Series{Kind: telemetry.DeliveryAttempts, Type: h.event, Outcome: outcome, Failure: category, Detail: kind}, 1)
		recorder.Record(ctx, telemetry.Series{Kind: telemetry.DeliveryDuration, Failure: category}, time.Since(start).Seconds())
	}
}

// A logLine is a log message that is written after the engine's lock is released.
type logLine struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// queueLog queues a log message, which unlock writes. The caller holds the lock.
func (e *Engine) queueLog(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	if e.o.Logger.Enabled(context.Background(), level) {
		e.lines = append(e.lines, logLine{level, message, h.logAttrs(more...)})
	}
}

// unlock releases e.mu and writes the queued log messages.
func (e *Engine) unlock() {
	lines := e.lines
	e.lines = nil
	e.mu.Unlock()
	for _, l := range lines {
		e.o.Logger.LogAttrs(context.Background(), l.level, l.message, l.attrs...)
	}
}

// writeLog writes a log message about a subscription. Log messages can contain ids and categories, but never the URL,
// secrets or payloads.
func (e *Engine) writeLog(level slog.Level, message string, h *Handle, more ...slog.Attr) {
	ctx := context.Background()
	if e.o.Logger.Enabled(ctx, level) {
		e.o.Logger.LogAttrs(ctx, level, message, h.logAttrs(more...)...)
	}
}
