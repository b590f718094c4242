package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// tellEvery is how often the log repeats a lasting fault.
	tellEvery = time.Minute
	// maxOutboxAge is how long an occurrence may wait in the outbox before that is logged. controlSlack is how long,
	// beyond orders.MaxUnheard, orders of other processes may be missing before that is logged.
	maxOutboxAge = time.Minute
	controlSlack = 8 * time.Second
)

// faults are the faults of this process in the cluster, each with the time of its last log message.
type faults struct{ lease, outbox, control lastingFault }

type lastingFault struct {
	since, told time.Time
}

// is records whether the fault exists now, and reports whether to log it. A new fault is not logged at first, because
// it may be temporary.
func (i *lastingFault) is(so bool, now time.Time) bool {
	switch {
	case !so:
		*i = lastingFault{}
		return false
	case i.since.IsZero():
		i.since = now
	}
	if now.Sub(i.since) < time.Second || !i.told.IsZero() && now.Sub(i.told) < tellEvery {
		return false
	}
	i.told = now
	return true
}

// OutboxAge implements [Processes].
func (c *Many) OutboxAge() time.Duration { return time.Duration(c.oldest.Load()) }

// watch checks for faults every second.
func (c *Many) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.checkFaults(ctx)
		}
	}
}

// checkFaults logs each lasting fault once a minute, because a single warning is overlooked. Health probes do not report
// these faults: they would remove all processes together.
func (c *Many) checkFaults(ctx context.Context) {
	now := time.Now()
	tell := func(what string, more ...slog.Attr) { c.o.Logger.LogAttrs(ctx, slog.LevelWarn, what, more...) }
	fence, owned := c.owner.Status()
	if c.faults.lease.is(fence == 0, now) {
		tell("mcp events: this process has no lease and does no shared work", slog.Time("since", c.faults.lease.since))
	}
	if last := c.LastLook(); c.faults.control.is(!last.IsZero() && now.Sub(last) > orders.MaxUnheard+controlSlack, now) {
		tell("mcp events: this process does not receive orders from other processes: revocations take effect late and deliveries wait", slog.Time("since", last))
	}
	if age := c.OutboxAge(); c.faults.outbox.is(owned[engine.OutboxTopic] > 0 && age > maxOutboxAge, now) {
		tell("mcp events: occurrences wait in the outbox, or may: appending to their logs fails, or looking for them", slog.Duration("oldest", age))
	}
}
