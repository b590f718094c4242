// Package engine defines the interfaces of stores that only the runtime uses. These are leases, shards, writes of
// owners, states of a cluster, histories of schemas, the outbox as its owner moves it, and the state of operators and
// of the sister protocols. A store that several processes use concurrently is a [Shared].
//
// Package store has the interfaces for authors and clients, and for stores that they implement themselves. The
// package makes no promise of compatibility.
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
	// ErrFenced is returned by a write whose lease or hold is not current; nothing was written. The caller must stop
	// its work immediately (REP-7).
	ErrFenced = errors.New("store: another process owns it now")
	// ErrNewEpoch is returned by a log whose store has begun a new generation. Entries that it has delivered may be
	// lost. Open the log again to get its new epoch (REP-19).
	ErrNewEpoch = errors.New("store: the log has begun a new epoch")
	// ErrNoLog is returned by [Shared.AppendGroup] for a log that no process has opened.
	ErrNoLog = errors.New("store: no server has opened the log")
	// ErrRefused is returned by [Shared.AppendGroup] if the store can never accept an entry of the group; nothing was
	// appended.
	ErrRefused = errors.New("store: the entry cannot be stored")
	// ErrQuota is matched by every [QuotaError].
	ErrQuota = errors.New("store: quota exceeded")
)

// A QuotaError reports that a record was not inserted because a quota is used up. See REP-12.
type QuotaError struct {
	// Own reports that the quota is that of the principal, not of all principals.
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

// Is makes errors.Is(err, ErrQuota) return true.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// A Quota bounds the number of records per principal and in all; 0 means no limit.
type Quota struct {
	Own, All int
}

// Full returns a [*QuotaError] if one more record exceeds the quota; otherwise nil. The arguments are the number of
// records of the principal and in all.
func (q Quota) Full(own, all int) error {
	switch {
	case q.Own > 0 && own >= q.Own:
		return &QuotaError{Own: true, Limit: q.Own}
	case q.All > 0 && all >= q.All:
		return &QuotaError{Limit: q.All}
	}
	return nil
}

// Names of logs and topics that cannot be event types, because event names have no slash.
const (
	// ControlLog is the log through which replicas inform each other of changes to records. A replica first writes
	// the record, then appends the entry, then answers the caller. See REP-13.
	ControlLog = "/control"
	// AuditLog is the log of operators' actions. See SRV-8.
	AuditLog = "/audit"
	// OutboxTopic has one shard; its owner moves the outbox to the logs. See REP-20.
	OutboxTopic = "/outbox"
	// RetentionTopic has one shard; its owner deletes entries that retention no longer covers.
	RetentionTopic = "/retention"
)

// Retention of the runtime's logs.
const (
	// ControlAge is how long orders are retained. A process that was away for longer calls the hooks for every
	// subscription instead.
	ControlAge = time.Hour
	// GapMark is the name of a shard's mark that holds a time, in Unix nanoseconds. The shard's subscriptions have
	// been informed of gaps of their event type up to then.
	GapMark = "/gap"
	// AuditAge and MaxAudit bound the audit log.
	AuditAge = 90 * 24 * time.Hour
	MaxAudit = 100_000
)

// Owned is the part of a [store.SubscriptionStore] to which the delivering process writes. A store for one process
// has a single owner; [Shared.Owned] returns the part for one shard.
type Owned interface {
	PutSubscription(ctx context.Context, s store.Subscription) (revision uint64, err error)
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error)
	SaveProgress(ctx context.Context, updates []store.Update) error
	// SaveAttempts is that of [Attempts]. A store without Attempts ignores the attempts.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// SaveMark and Mark are like those of a SubscriptionStore, with a separate mark per shard.
	SaveMark(ctx context.Context, log string, to store.Position) error
	Mark(ctx context.Context, log string) (store.Position, error)
}

// A Log is a [store.EventLog] to which other processes append as well. Appended sees their entries too, each once and
// in order (REP-2), except for entries that retention deleted before they could be read. Bounds and Read show the
// entries that Appended has seen.
type Log interface {
	store.EventLog
	// CatchUp returns the head once it has reached p. It also returns once a query of the store that began after the
	// call has shown that position p does not exist. A log has one such query at a time, at most every 100 ms. See
	// REP-3.
	CatchUp(ctx context.Context, p store.Position) (head store.Position, err error)
	// Seen returns the start of the last look after which Appended had seen every entry of the log. The time has a
	// monotonic reading.
	Seen() time.Time
}

// An Appended is the result of one entry of [Shared.AppendGroup].
type Appended struct {
	// Position is the position of the entry.
	Position store.Position
	// Fresh reports that this call appended the entry.
	Fresh bool
	// Err matches [events.ErrIDReused] if an entry with the same id but other data exists.
	Err error
}

// A State is a lasting fact about the cluster, such as a terminated event type. See REP-13.
type State struct {
	Key   string
	Value json.RawMessage
	// Revision counts changes; see PutState.
	Revision uint64
}

// A SchemaVersion is one version of an event type's schemas. See REP-16.
type SchemaVersion struct {
	// Fingerprint identifies the pair of schemas.
	Fingerprint                string
	InputSchema, PayloadSchema json.RawMessage
	// Floor is the position up to which the log may have payloads that these schemas reject.
	Floor store.Position
}

// A Shared is a [store.Store] that several processes use concurrently: the replicas of a cluster. Its logs are
// [Log]s. No transaction spans two shards, or a shard and a log.
//
// As a [store.SubscriptionStore] it serves any replica: replicas put new subscriptions with [Shared.Admit] and
// existing ones with PutSubscription, and delete them. SaveProgress, SaveMark and Mark of the store itself are for a
// process that uses it without shards; replicas use those of [Shared.Owned].
type Shared interface {
	store.Store
	store.SubscriptionStore
	Leases
	// Now returns the store's clock, which decides when leases end and gives events without a timestamp theirs
	// (REP-8).
	Now(ctx context.Context) (time.Time, error)
	// BeginEpochs begins a new generation, which is required after restoring the store from a backup. Each log begins
	// a new epoch and keeps its entries, and earlier leases and holds end. Running servers continue in the new
	// epochs. See CUR-8, REP-19.
	BeginEpochs(ctx context.Context) error
	// Generation returns a number that increases with each new generation, also after a failover that may have lost
	// writes.
	Generation() uint64
	// AppendGroup appends occurrences from an outbox to the log with the given name, in order and atomically. An
	// occurrence with Once is appended as by AppendOnce, above its Above. The result has an element per occurrence.
	// The log need not be open in this process. A group has up to 512 occurrences, with different ids per audience;
	// AppendGroup ignores their Log. Errors match ErrNoLog or ErrRefused. To find the entry that caused ErrRefused,
	// append the entries one by one.
	AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]Appended, error)
	// Admit is like PutSubscription, but counts a new record against a quota, atomically. If the quota is used up, it
	// returns a [*QuotaError] and changes nothing.
	Admit(ctx context.Context, s store.Subscription, q Quota) (revision uint64, err error)
	// AdmitVerification is like PutVerification with a quota.
	AdmitVerification(ctx context.Context, v store.Verification, q Quota) error
	// Owned returns the subscriptions of the hold's shard for its owner to read and write. The position up to which a
	// log was offered is kept per log and shard (REP-10). Every write checks the hold in its transaction, so that a
	// claim comes either before or after it, and returns ErrFenced if the hold is not current (REP-7). A hold from
	// before a new epoch is not current, even if no other replica has claimed the shard (REP-19).
	Owned(h ShardFence) Owned
	// Retain deletes up to limit entries that retention no longer covers, in logs of every build. It reports whether
	// there may be more. The hold is one of RetentionTopic.
	Retain(ctx context.Context, h ShardFence, limit int) (more bool, err error)
	// States returns up to limit states whose keys begin with prefix and are above after, in order.
	States(ctx context.Context, prefix, after string, limit int) ([]State, error)
	// PutState stores s if the stored revision equals s.Revision, which is 0 for a new state. It returns the new
	// revision, or [store.ErrConflict] if the revisions differ.
	PutState(ctx context.Context, s State) (revision uint64, err error)
	// DeleteState removes the state if the revision matches; otherwise it returns [store.ErrConflict].
	DeleteState(ctx context.Context, key string, revision uint64) error
	// History returns the versions of the event type's schemas, the first one first. See REP-16.
	History(ctx context.Context, event string) ([]SchemaVersion, error)
	// AddSchema appends to the history if it has known entries; otherwise it returns [store.ErrConflict]. Replicas
	// that start concurrently therefore each decide on the stored history.
	AddSchema(ctx context.Context, event string, v SchemaVersion, known int) error
}
