package engine

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Outbox takes occurrences within transactions of the author, for the logs of a [Shared] store. A store that has its
// logs in the author's database is its own. See REP-20.
type Outbox interface {
	// Sequence moves about limit occurrences from the outbox to their logs: those of a transaction in
	// their order, and those of one that began after another's end after the other's. It moves all that
	// are visible, whatever was moved before. What leaves the outbox is durable in its log, under its id:
	// appending and deleting are one step where one database has both, and elsewhere an occurrence is
	// deleted once it was appended. A log that cannot be appended to holds up no other. The hold is the
	// store's, of OutboxTopic; one that is not current is refused with ErrFenced.
	//
	// What cannot be read, is for a log that no server has opened or that is the servers' own, or is
	// refused by check, is put aside with the reason and reaches no log. check returns what is wrong
	// with an occurrence, or an error when that cannot be told now.
	Sequence(ctx context.Context, h Hold, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (Sequenced, error)
	// Rejected returns up to limit occurrences that were put aside, with ids above after, in order.
	Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error)
	// PutBack moves an occurrence that was put aside to the end of the outbox, where it is looked at
	// again, and Drop deletes it. found is false when there is none with that id.
	PutBack(ctx context.Context, id int64) (found bool, err error)
	Drop(ctx context.Context, id int64) (found bool, err error)
}

// ForNobody reports whether an occurrence has targets, and none of them: it is not to be appended.
func ForNobody(e *store.Entry) bool { return e.Targets != nil && len(e.Targets) == 0 }

// Sequenced is what a step of [Outbox.Sequence] came to.
type Sequenced struct {
	// Found is how many occurrences it saw.
	Found int
	// More tells that there may be more to do at once.
	More bool
	// Rejected is how many occurrences were put aside.
	Rejected int
	// Oldest is for how long the oldest occurrence has waited that is left, as far as that is known; 0 where none is.
	Oldest time.Duration
}
