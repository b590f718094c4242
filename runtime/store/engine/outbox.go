package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Outbox stores occurrences within the author's transactions and moves them to the logs of a [Shared] store. A store
// that keeps its logs in the author's database implements both. See REP-20.
type Outbox interface {
	// Sequence moves about limit occurrences from the outbox to their logs. It preserves the order of occurrences
	// within a transaction. If a transaction begins after another has ended, its occurrences follow those of the other.
	// Sequence moves all visible occurrences, even if later ones have already been moved. An occurrence that leaves the
	// outbox is durable in its log, under its id. If one database contains both, a single transaction appends the
	// occurrence and deletes it; otherwise Sequence deletes it after the append. A log that rejects appends does not
	// block other logs. The argument h must be the store's fence for OutboxTopic. If it is not current, Sequence
	// returns ErrFenced.
	//
	// Sequence rejects an occurrence if it cannot be read, if no server has opened its log, if its log belongs to the
	// runtime, or if check returns a fault. It sets the occurrence aside with the reason and does not append it. check
	// returns an error if it cannot decide now.
	Sequence(ctx context.Context, h ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (Sequenced, error)
	// Rejected returns up to limit rejected occurrences with ids greater than after, in order.
	Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error)
	// PutBack moves a rejected occurrence to the end of the outbox, to be checked again by Sequence. Drop deletes the
	// occurrence. Both return found as false if the id does not exist.
	PutBack(ctx context.Context, id int64) (found bool, err error)
	Drop(ctx context.Context, id int64) (found bool, err error)
}

// ForNobody reports whether an entry has an empty, non-nil list of targets. Such an entry must not be appended.
func ForNobody(e *store.Entry) bool { return e.Targets != nil && len(e.Targets) == 0 }

// Sequenced is the result of [Outbox.Sequence].
type Sequenced struct {
	// Found is the number of occurrences that Sequence read.
	Found int
	// More reports whether more occurrences may be ready to move.
	More bool
	// Rejected is the number of rejected occurrences.
	Rejected int
	// Oldest is the age of the oldest remaining occurrence, or 0 if unknown.
	Oldest time.Duration
}
