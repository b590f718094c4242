// Package engine holds what stores offer to the runtime and nobody else calls: leases, shards, writes of
// owners, states of a cluster, histories of schemas, the outbox as its owner moves it, and what operators
// and the sister protocols have remembered. A store that several processes use at once is a [Shared].
//
// What authors and clients see of a store, and what a store of their own implements, is in package store.
// The package makes no promise of compatibility.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrFenced is returned by a write whose lease or hold is no longer current; nothing was
	// written. Who meets it stops the work at once (REP-7).
	ErrFenced = errors.New("store: another process owns it now")
	// ErrNewEpoch is returned by a log whose store has begun a new generation: entries that it told
	// of may be gone. Opening the log again gives its new epoch (REP-19).
	ErrNewEpoch = errors.New("store: the log has begun a new epoch")
	// ErrNoLog is returned by [Shared.AppendGroup] for a log that no process has opened.
	ErrNoLog = errors.New("store: no server has opened the log")
	// ErrRefused is returned by [Shared.AppendGroup] when the store can never take what is in an entry; nothing was
	// appended.
	ErrRefused = errors.New("store: the entry cannot be stored")
	// ErrQuota is matched by every [QuotaError].
	ErrQuota = errors.New("store: quota exceeded")
)

// A QuotaError says that a record was not inserted because a quota is used up. See REP-12.
type QuotaError struct {
	// Own tells that it is the principal's quota, not everybody's.
	Own bool
	// Limit is the quota.
	Limit int
}

func (e *QuotaError) Error() string {
	if e.Own {
		return fmt.Sprintf("%v: the principal has %d records", ErrQuota, e.Limit)
	}
	return fmt.Sprintf("%v: there are %d records", ErrQuota, e.Limit)
}

// Is makes errors.Is(err, ErrQuota) true.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// A Quota bounds how many records a principal has and how many there are; 0 means no bound.
type Quota struct {
	Own, All int
}

// Full is the [*QuotaError] of one record more than that many, the principal's own and all; nil when there is room.
func (q Quota) Full(own, all int) error {
	switch {
	case q.Own > 0 && own >= q.Own:
		return &QuotaError{Own: true, Limit: q.Own}
	case q.All > 0 && all >= q.All:
		return &QuotaError{Limit: q.All}
	}
	return nil
}

// Names of logs and topics that are no event type's: event names have no slash.
const (
	// ControlLog is the log by which replicas tell each other what was done to records. A record
	// is written first, then its entry appended, then the caller answered. See REP-13.
	ControlLog = "/control"
	// AuditLog is the log of what operators did. See SRV-8.
	AuditLog = "/audit"
	// OutboxTopic has the shard whose owner moves the outbox to the logs. See REP-20.
	OutboxTopic = "/outbox"
	// RetentionTopic has the shard whose owner deletes what retention no longer covers.
	RetentionTopic = "/retention"
)

// What the logs of the runtime's own retain.
const (
	// ControlAge is how long orders are retained. A process that was not there for so long asks the
	// hooks again for everything instead.
	ControlAge = time.Hour
	// AuditAge and MaxAudit bound what the audit log keeps.
	AuditAge = 90 * 24 * time.Hour
	MaxAudit = 100_000
)

// Owned is the part of a [store.SubscriptionStore] that is written by who delivers. A one-process
// store has one owner, which writes it as a whole; [Shared.Owned] gives it for one shard.
type Owned interface {
	PutSubscription(ctx context.Context, s store.Subscription) (revision uint64, err error)
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error)
	SaveProgress(ctx context.Context, updates []store.Update) error
	// SaveAttempts is that of [Attempts]; an owner that keeps none passes them over.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// SaveMark and Mark are those of a SubscriptionStore, with a separate mark for each shard.
	SaveMark(ctx context.Context, log string, to store.Position) error
	Mark(ctx context.Context, log string) (store.Position, error)
}

// A Log is a [store.EventLog] that other processes append to as well. Appended is told of their
// entries too, of each once and in order (REP-2); of what retention deleted before it could be read
// it is told nothing. Bounds and Read show what Appended was told.
type Log interface {
	store.EventLog
	// CatchUp returns the head once it has reached p, or once the store, asked after the call began,
	// has no such position. The questions of a log are asked one at a time, at most every 100 ms.
	// See REP-3.
	CatchUp(ctx context.Context, p store.Position) (head store.Position, err error)
	// Seen returns when the last look at the store began after which Appended had been told of all
	// that the log held then. It has a monotonic reading.
	Seen() time.Time
}

// An Appended is what became of an entry of [Shared.AppendGroup].
type Appended struct {
	// Position is where it stands.
	Position store.Position
	// Fresh tells that it was appended now.
	Fresh bool
	// Err matches [events.ErrIDReused] where an entry with other data stands under its id.
	Err error
}

// A State is a lasting fact about the cluster, such as a type that was terminated. See REP-13.
type State struct {
	Key   string
	Value json.RawMessage
	// Revision counts changes; see PutState.
	Revision uint64
}

// A SchemaVersion is an entry of an event type's history. See REP-16.
type SchemaVersion struct {
	// Fingerprint identifies the pair of schemas.
	Fingerprint                string
	InputSchema, PayloadSchema json.RawMessage
	// Floor is the position up to which the log holds payloads that these schemas may refuse.
	Floor store.Position
}

// A Shared is a [store.Store] that several processes use at once: the replicas of a cluster. Its logs are
// [Log]s. No step of it spans two shards, or a shard and a log.
//
// As a [store.SubscriptionStore] it may be asked by any replica: subscriptions are put with [Shared.Admit]
// or, where they exist, with PutSubscription, and deleted. SaveProgress, SaveMark and Mark of the
// store itself are for a process that uses it alone; replicas have those of [Shared.Owned].
type Shared interface {
	store.Store
	store.SubscriptionStore
	Leases
	// Now is the store's clock, by which leases end and what has no timestamp of its author's gets one (REP-8).
	Now(ctx context.Context) (time.Time, error)
	// BeginEpochs begins a new generation, as belongs to putting back an older copy of the store: each log begins a new
	// epoch and keeps its entries, and the leases and holds of before are over. Processes that serve go on in the new
	// epochs. See CUR-8, REP-19.
	BeginEpochs(ctx context.Context) error
	// Generation is a number that each new generation raises, a failover's that may have lost something too.
	Generation() uint64
	// AppendGroup appends what comes by an outbox to the log of that name, in order, in one step or not at all; those that
	// say Once as AppendOnce does, above their Above. There is a result for each. The log need not be open in this
	// process. A group has up to 512 occurrences, of which no two have one id for one audience; their Log does not count.
	// Errors match ErrNoLog, or ErrRefused: which entry of several is refused is found by appending them one by one.
	AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]Appended, error)
	// Admit is PutSubscription for a record that counts against a quota when it is new. Counting and
	// inserting are one step; beyond the quota the error is a [*QuotaError] and nothing changes.
	Admit(ctx context.Context, s store.Subscription, q Quota) (revision uint64, err error)
	// AdmitVerification is PutVerification with a quota.
	AdmitVerification(ctx context.Context, v store.Verification, q Quota) error
	// Owned returns the subscriptions of the hold's shard as their owner reads and writes them. How
	// far a log was offered is kept per (log, shard) (REP-10). Every write checks the hold in its
	// step, so that a claim comes before it or after it, and returns ErrFenced when it is not
	// current (REP-7). A hold of before a new epoch is not, whoever has the shard since (REP-19).
	Owned(h Hold) Owned
	// Retain deletes up to limit entries that retention no longer covers, in logs of every build,
	// and tells whether there may be more. The hold is of RetentionTopic.
	Retain(ctx context.Context, h Hold, limit int) (more bool, err error)
	// States returns up to limit states with keys that begin with prefix and are above after, in
	// order.
	States(ctx context.Context, prefix, after string, limit int) ([]State, error)
	// PutState stores s when the stored revision equals s.Revision, 0 meaning that there is none,
	// and returns the new one; otherwise [store.ErrConflict].
	PutState(ctx context.Context, s State) (revision uint64, err error)
	// DeleteState removes the state when the revision matches, else returns [store.ErrConflict].
	DeleteState(ctx context.Context, key string, revision uint64) error
	// History returns the schemas that the event type has had, the first first. See REP-16.
	History(ctx context.Context, event string) ([]SchemaVersion, error)
	// AddSchema appends to the history when it has known entries, else returns [store.ErrConflict]: of
	// replicas that start together each judges by what stands.
	AddSchema(ctx context.Context, event string, v SchemaVersion, known int) error
}
