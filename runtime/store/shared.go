package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFenced is returned by a write whose lease or hold is no longer current; nothing was
	// written. Who meets it stops the work at once (REP-7).
	ErrFenced = errors.New("store: somebody else owns it now")
	// ErrUncertain is matched by errors of writes whose answer was lost: what was written may stand.
	// AppendOnce under the same id tells (REP-22).
	ErrUncertain = errors.New("store: the answer was lost, it may have been written")
	// ErrNewEpoch is returned by a log whose store has begun a new generation: entries that it told
	// of may be gone. Opening the log again gives its new epoch (REP-19).
	ErrNewEpoch = errors.New("store: the log has begun a new epoch")
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

// Names of logs and topics that are no event type's: event names have no slash.
const (
	// ControlLog is the log by which replicas tell each other what was done to records. A record
	// is written first, then its entry appended, then the caller answered. See REP-13.
	ControlLog = "/control"
	// OutboxTopic has the shard whose owner moves the outbox to the logs. See REP-20.
	OutboxTopic = "/outbox"
	// RetentionTopic has the shard whose owner deletes what retention no longer covers.
	RetentionTopic = "/retention"
)

// A Shard names a part of the work that only one replica may do. See REP-6.
type Shard struct {
	// Topic is an event type, whose webhook subscriptions are divided, or one of OutboxTopic and
	// RetentionTopic.
	Topic string
	// Number counts from 0.
	Number int
}

func (s Shard) String() string { return fmt.Sprintf("%s#%d", s.Topic, s.Number) }

// A Hold says who owns a shard: the lease with that fence, or nobody when it is 0. Every write of an
// owner names its hold.
type Hold struct {
	Shard Shard
	Fence uint64
}

// A Lease makes a process a replica. The replica counts its time on its own clock, from when it
// asked. See REP-6.
type Lease struct {
	// Fence is larger than that of every lease before it; never 0.
	Fence uint64
	// Now is the store's clock when the lease was granted or renewed.
	Now time.Time
}

// A Replica is one that has a lease.
type Replica struct {
	// Name is what it calls itself, for people.
	Name  string
	Fence uint64
	// Types are the event types that it has registered, each with the fingerprint of its
	// schemas. See REP-16.
	Types map[string]string
}

// A Cluster is who is there and who owns what.
type Cluster struct {
	// Now is the store's clock.
	Now time.Time
	// Replicas are those whose lease has not expired, in order of their fences.
	Replicas []Replica
	// Shards are in order of topic and number. A fence that no replica has is free to claim.
	Shards []Hold
}

// Leases are what ownership rests on. Expiry is judged by the store's clock. A lease that has once
// been seen expired never becomes current again.
type Leases interface {
	// Join begins a lease.
	Join(ctx context.Context, name string, ttl time.Duration, types map[string]string) (Lease, error)
	// Renew lets the lease last ttl from now and replaces its types. When it has expired, Renew
	// returns ErrFenced.
	Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string) (Lease, error)
	// Leave ends the lease; its shards are free. One that is over is no error.
	Leave(ctx context.Context, fence uint64) error
	// Cluster returns who is there. Leases that have expired by then are over.
	Cluster(ctx context.Context) (Cluster, error)
	// Establish makes n shards of the topic unless there are some, and returns how many there are:
	// the number is fixed when a topic is first seen.
	Establish(ctx context.Context, topic string, n int) (int, error)
	// Claim gives the shards to the lease, each in a step of its own: those that are still held as
	// given, by a fence whose lease is over or by 0. It returns those that were won, and ErrFenced
	// when the claiming lease is over.
	Claim(ctx context.Context, fence uint64, free []Hold) (won []Shard, err error)
	// Release gives the shard up. It returns ErrFenced when the hold is not current.
	Release(ctx context.Context, h Hold) error
}

// An OwnedStore is the part of a [SubscriptionStore] that is written by who delivers. A one-process
// store has one owner, which writes it as a whole; [Shared.Owned] gives it for one shard.
type OwnedStore interface {
	PutSubscription(ctx context.Context, s Subscription) (revision uint64, err error)
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	Subscriptions(ctx context.Context, after string, limit int) ([]Subscription, error)
	SaveProgress(ctx context.Context, updates []Update) error
	Dispatched(ctx context.Context, log string, to Position, concerned []Concern) error
	Resume(ctx context.Context, log string) (to Position, concerned []Concern, err error)
}

// A SharedLog is an [EventLog] that other processes append to as well. Appended is told of their
// entries too, of each once and in order (REP-2); of what retention deleted before it could be read
// it is told nothing. Bounds and Read show what Appended was told.
type SharedLog interface {
	EventLog
	// CatchUp returns the head once it has reached p, or once the store, asked after the call began,
	// has no such position. The questions of a log are asked one at a time, at most every 100 ms.
	// See REP-3.
	CatchUp(ctx context.Context, p Position) (head Position, err error)
	// Seen returns when the last look at the store began after which Appended had been told of all
	// that the log held then. It has a monotonic reading.
	Seen() time.Time
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
	Floor Position
}

// A Shared is a [Store] that several processes use at once: the replicas of a cluster. Its logs are
// [SharedLog]s. No step of it spans two shards, or a shard and a log.
//
// As a [SubscriptionStore] it may be asked by any replica: subscriptions are put with [Shared.Admit]
// or, where they exist, with PutSubscription, and deleted. SaveProgress, Dispatched and Resume of the
// store itself are for a process that uses it alone; replicas have those of [Shared.Owned].
type Shared interface {
	Store
	SubscriptionStore
	Leases
	// Admit is PutSubscription for a record that counts against a quota when it is new. Counting and
	// inserting are one step; beyond the quota the error is a [*QuotaError] and nothing changes.
	Admit(ctx context.Context, s Subscription, q Quota) (revision uint64, err error)
	// AdmitVerification is PutVerification with a quota.
	AdmitVerification(ctx context.Context, v Verification, q Quota) error
	// Owned returns the subscriptions of the hold's shard as their owner reads and writes them. How
	// far a log was offered is kept per (log, shard) (REP-10). Every write checks the hold in its
	// step, so that a claim comes before it or after it, and returns ErrFenced when it is not
	// current (REP-7).
	Owned(h Hold) OwnedStore
	// Retain deletes up to limit entries that retention no longer covers, in logs of every build,
	// and tells whether there may be more. The hold is of RetentionTopic.
	Retain(ctx context.Context, h Hold, limit int) (more bool, err error)
	// States returns up to limit states with keys that begin with prefix and are above after, in
	// order.
	States(ctx context.Context, prefix, after string, limit int) ([]State, error)
	// PutState stores s when the stored revision equals s.Revision, 0 meaning that there is none,
	// and returns the new one; otherwise ErrConflict.
	PutState(ctx context.Context, s State) (revision uint64, err error)
	// DeleteState removes the state when the revision matches, else returns ErrConflict.
	DeleteState(ctx context.Context, key string, revision uint64) error
	// History returns the schemas that the event type has had, the first first. See REP-16.
	History(ctx context.Context, event string) ([]SchemaVersion, error)
	// AddSchema appends to the history when it has known entries, else returns ErrConflict: of
	// replicas that start together each judges by what stands.
	AddSchema(ctx context.Context, event string, v SchemaVersion, known int) error
}

// An Outbox is a [Shared] store that takes occurrences within transactions of the author. See
// REP-20.
type Outbox interface {
	// Sequence moves up to limit occurrences from the outbox to their logs, in order of their ids:
	// all that are visible, whatever was moved before. Appending and deleting are one step. more
	// tells that the limit was reached. The hold is of OutboxTopic.
	Sequence(ctx context.Context, h Hold, limit int) (more bool, err error)
}

// An Outgoing is a validated occurrence that is not in a log yet.
type Outgoing struct {
	// Log is the name of the log that it is for.
	Log   string
	Entry Entry
	// Once and Above tell that it is appended as by AppendOnce. See OCC-5.
	Once  bool
	Above Position
}

// A Prepared is what an emitter's Prepare returns and a store's transactional emit takes.
type Prepared interface {
	// Outgoing returns what is to be appended.
	Outgoing() Outgoing
}
