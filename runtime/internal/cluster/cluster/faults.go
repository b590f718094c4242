package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// logEvery is the interval between log messages about a lasting fault.
	logEvery = time.Minute
	// maxOutboxAge is the time that an occurrence can wait in the outbox before a warning is logged.
	maxOutboxAge = time.Minute
	// controlSlack is the additional time after orders.MaxUnheard after which a warning about missing orders is logged.
	controlSlack = 8 * time.Second
)

// clusterFaults tracks the possible faults of this process in the cluster.
type clusterFaults struct{ lease, outbox, control lastingFault }

type lastingFault struct {
	since, loggedAt time.Time
}

// shouldLog records whether the fault exists now and reports whether to log it. A new fault is not logged for one
// second, because it might be temporary.
func (i *lastingFault) shouldLog(so bool, now time.Time) bool {
	switch {
	case !so:
		*i = lastingFault{}
		return false
	case i.since.IsZero():
		i.since = now
	}
	if now.Sub(i.since) < time.Second || !i.loggedAt.IsZero() && now.Sub(i.loggedAt) < logEvery {
		return false
	}
	i.loggedAt = now
	return true
}

// OutboxAge implements [Processes].
func (c *Many) OutboxAge() time.Duration { return time.Duration(c.oldest.Load()) }

// checkFaults logs each lasting fault once per minute, because a single warning is easily overlooked. Health probes do
// not report these faults, because the probes of all processes would then fail simultaneously. It never fails.
func (c *Many) checkFaults(ctx context.Context) error {
	now := time.Now()
	tell := func(what string, more ...slog.Attr) { c.o.Logger.LogAttrs(ctx, slog.LevelWarn, what, more...) }
	fence, owned := c.owner.Status()
	if c.faults.lease.shouldLog(fence == 0, now) {
		tell("mcp events: this process has no lease and does no shared work", slog.Time("since", c.faults.lease.since))
	}
	if last := c.LastLook(); c.faults.control.shouldLog(!last.IsZero() && now.Sub(last) > orders.MaxUnheard+controlSlack, now) {
		tell("mcp events: this process does not receive orders from other processes: revocations take effect late and deliveries wait", slog.Time("since", last))
	}
	if age := c.OutboxAge(); c.faults.outbox.shouldLog(owned[engine.OutboxTopic] > 0 && age > maxOutboxAge, now) {
		tell("mcp events: occurrences wait in the outbox, or may: appending to their logs fails, or looking for them", slog.Duration("oldest", age))
	}
	return nil
}
