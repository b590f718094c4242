// Package engine defines store interfaces that only the runtime uses. They cover leases and shards, writes by shard
// owners, cluster states, schema histories, the outbox, and the state of operators and of the sister protocols. Stores
// for concurrent use by several processes implement [Shared].
//
// Package store defines the interfaces for authors and clients, who can implement them themselves. Package engine makes
// no compatibility promise.
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
	// ErrFenced is returned by a write if its lease or fence is not current. Nothing was written, and the caller must
	// stop its work immediately (REP-7).
	ErrFenced = errors.New("store: another process owns it now")
	// ErrNewEpoch is returned by a log after its store has begun a new generation. Delivered entries may have been
	// lost. Reopen the log to obtain its new epoch (REP-19).
	ErrNewEpoch = errors.New("store: the log has begun a new epoch")
	// ErrNoLog is returned by [Shared.AppendGroup] for a log that no process has opened.
	ErrNoLog = errors.New("store: no server has opened the log")
	// ErrRefused is returned by [Shared.AppendGroup] if the store can never accept an entry of the group. Nothing was
	// appended.
	ErrRefused = errors.New("store: the entry cannot be stored")
	// ErrQuota is matched by every [QuotaError].
	ErrQuota = errors.New("store: quota exceeded")
)

// A QuotaError indicates that a record was not inserted because a quota is exhausted. See REP-12.
type QuotaError struct {
	// Own reports whether the quota is per principal rather than for all principals.
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

// Is reports whether target is [ErrQuota].
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// A Quota limits the number of records per principal and in total; 0 means no limit.
type Quota struct {
	Own, All int
}

// Full returns a [*QuotaError] if one more record would exceed the quota; otherwise it returns nil. The arguments own
// and all are the current record counts of the principal and of all principals.
func (q Quota) Full(own, all int) error {
	switch {
	case q.Own > 0 && own >= q.Own:
		return &QuotaError{Own: true, Limit: q.Own}
	case q.All > 0 && all >= q.All:
		return &QuotaError{Limit: q.All}
	}
	return nil
}

// Names of logs and topics. They cannot be event types, because event names do not contain slashes.
const (
	// ControlLog is the log that replicas use to notify each other of record changes. A replica writes the record, then
	// appends the entry, and then responds to the caller. See REP-13.
	ControlLog = "/control"
	// AuditLog is the log of operator actions. See SRV-8.
	AuditLog = "/audit"
	// OutboxTopic has one shard. Its owner moves occurrences from the outbox to the logs. See REP-20.
	OutboxTopic = "/outbox"
	// RetentionTopic has one shard. Its owner deletes log entries that have exceeded their retention.
	RetentionTopic = "/retention"
)

// Retention of the runtime's logs.
const (
	// ControlAge is how long entries of the control log are retained. A process that was disconnected for longer calls
	// the hooks for every subscription instead.
	ControlAge = time.Hour
	// AuditAge and MaxAudit limit the age and the number of audit log entries.
	AuditAge = 90 * 24 * time.Hour
	MaxAudit = 100_000
)

// Owned is the set of subscriptions that one delivering process reads and writes. In a store for a single process, it
// contains all subscriptions. [Shared.Owned] returns those of one shard.
type Owned interface {
	PutSubscription(ctx context.Context, s store.Subscription) (revision uint64, err error)
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error)
	SaveProgress(ctx context.Context, updates []store.Update) error
	// SaveAttempts is like that of [Attempts]. A store that does not implement Attempts ignores the attempts.
	SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error
	// SaveMark and Mark are like those of a SubscriptionStore, with a separate mark per shard.
	SaveMark(ctx context.Context, log string, to store.Position) error
	Mark(ctx context.Context, log string) (store.Position, error)
}

// A Log is a [store.EventLog] that other processes also append to. Appended also receives their entries, exactly once
// and in order (REP-2), except for entries that retention deleted before they could be read. Bounds and Read cover only
// the entries that Appended has received.
type Log interface {
	store.EventLog
	// CatchUp waits until the head has reached p and returns the head. It also returns if a query that began after the
	// call shows that position p does not exist. A log runs one such query at a time, at most every 100 ms. See REP-3.
	CatchUp(ctx context.Context, p store.Position) (head store.Position, err error)
	// Seen returns the start time of the last poll after which Appended had received every entry of the log. The time
	// includes a monotonic clock reading.
	Seen() time.Time
}

// Appended is the result for one entry passed to [Shared.AppendGroup].
type Appended struct {
	// Position is the entry's position in the log.
	Position store.Position
	// Fresh reports whether this call appended the entry.
	Fresh bool
	// Err matches [events.ErrIDReused] if an entry with the same id but other data exists.
	Err error
}

// A State is a persistent fact about the cluster, such as the termination of an event type. See REP-13.
type State struct {
	Key   string
	Value json.RawMessage
	// Revision is the number of changes; see PutState.
	Revision uint64
}

// A SchemaVersion is one version of an event type's schemas. See REP-16.
type SchemaVersion struct {
	// Fingerprint identifies the pair of schemas.
	Fingerprint                string
	InputSchema, PayloadSchema json.RawMessage
	// Floor is the position up to which the log may contain payloads that these schemas reject.
	Floor store.Position
}

// A SchemaComparer is a [store.Store] that knows which changes of schemas are compatible (EVOL-2). For other stores of
// one process, each change is incompatible, unless the server has a part.
type SchemaComparer interface {
	// IncompatibleFeatures returns the features of an event type that changed incompatibly, the first one first. It also
	// returns the text of the first change.
	IncompatibleFeatures(old, now SchemaVersion) (features []string, first string)
}

// Shared is a [store.Store] that several processes, the replicas of a cluster, use concurrently. Its logs
// implement [Log]. No transaction spans two shards, or a shard and a log.
//
// Any replica can use the methods of [store.SubscriptionStore]. A replica stores a new subscription with [Shared.Admit]
// and an existing one with PutSubscription, and can delete subscriptions. The store's SaveProgress, SaveMark and Mark
// are for a process that does not use shards. Replicas use those of [Shared.Owned].
type Shared interface {
	store.Store
	store.SubscriptionStore
	Leases
	// Now returns the time of the store's clock. That clock decides when leases expire, and it provides the timestamp
	// of an event that has none (REP-8).
	Now(ctx context.Context) (time.Time, error)
	// BeginEpochs begins a new generation. It is required after the store was restored from a backup. Each log keeps
	// its entries and begins a new epoch, and earlier leases and fences are no longer current. Running servers continue
	// in the new epochs. See CUR-8, REP-19.
	BeginEpochs(ctx context.Context) error
	// Generation returns the number of the current generation. It increases with each new generation, including after a
	// failover that may have lost writes.
	Generation() uint64
	// AppendGroup atomically appends occurrences from an outbox to the log with the given name, in order. If Once is
	// set, an occurrence is appended as by AppendOnce with its Above. The result has one element per occurrence. The
	// log need not be open in this process. A group can have up to 512 occurrences; ids must be unique per audience.
	// AppendGroup ignores their Log field. Errors match ErrNoLog or ErrRefused. To find the entry that caused
	// ErrRefused, append the entries one by one.
	AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]Appended, error)
	// Admit is like PutSubscription, but atomically checks a new record against a quota. If the quota is exhausted, it
	// returns a [*QuotaError] and changes nothing.
	Admit(ctx context.Context, s store.Subscription, q Quota) (revision uint64, err error)
	// AdmitVerification is like PutVerification with a quota.
	AdmitVerification(ctx context.Context, v store.Verification, q Quota) error
	// Owned returns the subscriptions of the shard for its owner to read and write. Marks are stored per log and shard
	// (REP-10). Every write checks the fence in its transaction, so that a claim is ordered either before or after the
	// write. The write returns ErrFenced if the fence is not current (REP-7). A fence from before a new epoch is not
	// current, even if no other replica has claimed the shard (REP-19).
	Owned(h ShardFence) Owned
	// Retain deletes up to limit entries that have exceeded their retention, in the logs of every build. It reports
	// whether more may remain. The argument h must be a fence for RetentionTopic.
	Retain(ctx context.Context, h ShardFence, limit int) (more bool, err error)
	// States returns up to limit states with keys that begin with prefix and are greater than after, in order.
	States(ctx context.Context, prefix, after string, limit int) ([]State, error)
	// PutState stores s if the stored revision equals s.Revision, which is 0 for a new state. It returns the new
	// revision, or [store.ErrConflict] if the revisions differ.
	PutState(ctx context.Context, s State) (revision uint64, err error)
	// DeleteState removes the state if the revision matches; otherwise it returns [store.ErrConflict].
	DeleteState(ctx context.Context, key string, revision uint64) error
	// History returns the versions of the event type's schemas, oldest first. See REP-16.
	History(ctx context.Context, event string) ([]SchemaVersion, error)
	// AddSchema appends v to the history if the history has exactly known entries; otherwise it
	// returns [store.ErrConflict]. Replicas that start concurrently therefore each base their decision on the stored
	// history.
	AddSchema(ctx context.Context, event string, v SchemaVersion, known int) error
}
