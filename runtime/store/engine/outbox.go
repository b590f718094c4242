package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Outbox stores occurrences within the author's transactions and moves them to the logs of a [Shared] store. A
// store whose logs are in the author's database implements both. See REP-20.
type Outbox interface {
	// Sequence moves about limit occurrences from the outbox to their logs. Those of a transaction keep their order.
	// If a transaction begins after another has ended, its occurrences come after those of the other. Sequence moves
	// all visible occurrences, even if later ones have already moved. An occurrence that leaves the outbox is durable
	// in its log, under its id: if one database has both, one transaction appends and deletes; otherwise Sequence
	// deletes the occurrence after appending it. A log that cannot be appended to does not block the others. The hold
	// is one of the store, for OutboxTopic. If it is not current, Sequence returns ErrFenced.
	//
	// Sequence sets aside, with a reason, occurrences that it cannot read, whose log no server has opened or belongs
	// to the runtime, or that check rejects. They reach no log. check returns the fault of an occurrence, or an error
	// if it cannot decide now.
	Sequence(ctx context.Context, h ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (Sequenced, error)
	// Rejected returns up to limit occurrences that were set aside, with ids above after, in order.
	Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error)
	// PutBack moves an occurrence that was set aside to the end of the outbox, where Sequence checks it once more.
	// Drop deletes it. found is false if the id does not exist.
	PutBack(ctx context.Context, id int64) (found bool, err error)
	Drop(ctx context.Context, id int64) (found bool, err error)
}

// ForNobody reports whether an entry has an empty, non-nil list of targets: it must not be appended.
func ForNobody(e *store.Entry) bool { return e.Targets != nil && len(e.Targets) == 0 }

// Sequenced is the result of [Outbox.Sequence].
type Sequenced struct {
	// Found is the number of occurrences that it has read.
	Found int
	// More reports that there may be more to move immediately.
	More bool
	// Rejected is the number of occurrences that were set aside.
	Rejected int
	// Oldest is how long the oldest remaining occurrence has waited, if known; otherwise 0.
	Oldest time.Duration
}
