package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// tellEvery is how often the log says again that something is wrong.
	tellEvery = time.Minute
	// maxOutboxAge is how long an occurrence may wait in the outbox, and controlSlack how much longer than the others' orders
	// may be unheard that deliveries may be made, before the log says so.
	maxOutboxAge = time.Minute
	controlSlack = 8 * time.Second
)

// ills are what is wrong with this process among the others, each with when the log said so last.
type ills struct{ lease, outbox, control ill }

type ill struct {
	since, told time.Time
}

// is takes in whether it is so now; true when the log should say that. What has just begun may pass by itself.
func (i *ill) is(so bool, now time.Time) bool {
	switch {
	case !so:
		*i = ill{}
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

// watch looks every second at what is wrong.
func (c *Many) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.ail(ctx)
		}
	}
}

// ail has the log say once a minute what is wrong, for as long as it is: a warning that is said once is forgotten. Probes do not
// show it, since all processes would be taken away at once.
func (c *Many) ail(ctx context.Context) {
	now := time.Now()
	tell := func(what string, more ...slog.Attr) { c.o.Logger.LogAttrs(ctx, slog.LevelWarn, what, more...) }
	fence, owned := c.owner.Status()
	if c.ills.lease.is(fence == 0, now) {
		tell("mcp events: this process has no lease and does no shared work", slog.Time("since", c.ills.lease.since))
	}
	if last := c.LastLook(); c.ills.control.is(!last.IsZero() && now.Sub(last) > orders.MaxUnheard+controlSlack, now) {
		tell("mcp events: this process does not receive orders from other processes: revocations take effect late and deliveries wait", slog.Time("since", last))
	}
	if age := c.OutboxAge(); c.ills.outbox.is(owned[engine.OutboxTopic] > 0 && age > maxOutboxAge, now) {
		tell("mcp events: occurrences wait in the outbox, or may: appending to their logs fails, or looking for them", slog.Duration("oldest", age))
	}
}
