package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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
	s := e.census()
	report(telemetry.Series{Kind: telemetry.DeliveriesInFlight}, float64(s.inFlight))
	for state, n := range s.live {
		report(telemetry.Series{Kind: telemetry.WebhookSubscriptions, Detail: string(state)}, float64(n))
	}
	for event, n := range s.lag {
		report(telemetry.Series{Kind: telemetry.WebhookLag, Type: event}, float64(n))
	}
}

// A census contains the values that observe reports.
type census struct {
	inFlight int64
	live     map[operator.State]int64
	lag      map[string]int64
}

func (e *Engine) census() census {
	s := census{live: map[operator.State]int64{operator.StateActive: 0, operator.StateSuspended: 0, operator.StatePaused: 0}, lag: map[string]int64{}}
	heads := map[*Log]store.Position{}
	e.mu.Lock()
	s.inFlight = int64(e.flying)
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
			s.live[operator.StatePaused]++
		case h.health.suspended:
			s.live[operator.StateSuspended]++
		default:
			s.live[operator.StateActive]++
		}
		if h.log == nil {
			return
		}
		behind := int64(0)
		if base, head := h.marks.Base(), heads[h.log]; !h.isQuiet() && head > base {
			behind = int64(head - base)
		}
		s.lag[h.event] = max(s.lag[h.event], behind)
	})
	return s
}

// Lag returns, for each event type, how many entries its slowest subscription lags behind the log.
func (e *Engine) Lag() map[string]int64 { return e.census().lag }

// Failing returns the ids of up to limit failing subscriptions and the total number of failing subscriptions. The
// subscription that has been failing longest is first. A subscription is failing if it is suspended or its last attempt
// failed.
func (e *Engine) Failing(limit int) (ids []string, total int) {
	type failing struct {
		since instant
		id    string
	}
	var first []failing
	earlier := func(a, b failing) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) }
	e.visitHandles(func(h *Handle) {
		if h.hasEnded() || !h.health.suspended && h.health.failedSince == 0 {
			return
		}
		total++
		f := failing{h.health.failedSince, h.id}
		if i, _ := slices.BinarySearchFunc(first, f, earlier); i < limit {
			first = slices.Insert(first[:min(len(first), limit-1)], i, f)
		}
	})
	for _, f := range first {
		ids = append(ids, f.id)
	}
	return ids, total
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
