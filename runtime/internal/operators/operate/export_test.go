package operate

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Limits of the package.
const (
	MaxAuditText = maxAuditText
	MaxAuditScan = maxAuditScan
	TailEvery    = tailEvery
	TailBehind   = tailBehind
	TailBatch    = tailBatch
	TailPage     = tailPage
	SeekBatch    = seekBatch
)

// ErrNoWebhooks is the error of a server without webhooks.
var ErrNoWebhooks = errNoWebhooks

// FormatUTC formats times in the text of a [operator.Delay].
var FormatUTC = formatUTC

// PositionBefore returns the position before the event id, among the latest entries of an event type.
func (a *Admin) PositionBefore(ctx context.Context, event, id string, look int) (store.Position, error) {
	return positionBefore(ctx, a.o.Host.EventType(event), id, look)
}

// SearchEventID returns the occurrences of an event type with the id, and whether it read the whole log.
func (a *Admin) SearchEventID(ctx context.Context, event, id string, left *int) ([]operator.Occurrence, bool, error) {
	return searchEventID(ctx, a.o.Host.EventType(event), id, left)
}
