package ledger

import domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"

// The types of the domain that the stores of today share with the ledger.
type (
	// A Shard is a part of the work that one process does at a time.
	Shard = domain.Shard
	// A Quota bounds the records of a principal and of all; 0 means no bound.
	Quota = domain.Quota
	// A QuotaError reports that a quota is used up.
	QuotaError = domain.QuotaError
	// A SchemaVersion is an entry of the history of an event type.
	SchemaVersion = domain.SchemaVersion
	// An Action is an operator's request under an idempotency key.
	Action = domain.Action
	// AttemptBounds bound the attempts that are kept.
	AttemptBounds = domain.AttemptBounds
)

var (
	// ErrFenced is returned if the process no longer holds the lease or shard. Nothing was written.
	ErrFenced = domain.ErrFenced
	// ErrQuota is matched by each [QuotaError].
	ErrQuota = domain.ErrQuota
	// ErrActionGone is returned by [Ledger.FinishAction] for an action that is no longer remembered.
	ErrActionGone = domain.ErrActionGone
)
