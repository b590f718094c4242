package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// A Shard is a unit of work that only one replica may do at a time. See REP-6.
type Shard struct {
	// Topic is an event type, whose webhook subscriptions are divided into shards, or one of OutboxTopic and
	// RetentionTopic.
	Topic string
	// Number counts from 0.
	Number int
}

// Compare orders shards by topic and number.
func (s Shard) Compare(other Shard) int {
	return cmp.Or(strings.Compare(s.Topic, other.Topic), cmp.Compare(s.Number, other.Number))
}

func (s Shard) String() string { return fmt.Sprintf("%s#%d", s.Topic, s.Number) }

// A ShardFence states the owner of a shard: the lease with that fence, or no one if Fence is 0. Every write of an owner
// carries one.
type ShardFence struct {
	Shard Shard
	Fence uint64
}

// A Lease makes a process a replica. The replica measures the lease by its clock, from the time at which it sent the
// request. See REP-6.
type Lease struct {
	// Fence is the fencing token: greater than those of all earlier leases, never 0.
	Fence uint64
	// Now is the store's clock when the lease was granted or renewed.
	Now time.Time
}

// A Replica is a process with a lease.
type Replica struct {
	// Name is the name that the process chose, for operators.
	Name  string
	Fence uint64
	// Types are the event types that the replica has registered, each with the fingerprint of its schemas. See
	// REP-16.
	Types map[string]string
}

// A Cluster lists the replicas and the owners of the shards.
type Cluster struct {
	// Replicas have unexpired leases; they are in order of their fences.
	Replicas []Replica
	// Shards are in order of topic and number. A shard can be claimed if its fence belongs to no replica.
	Shards []ShardFence
}

// Leases manages the leases of replicas and the ownership of shards. The store's clock decides when a lease expires.
// A lease that was seen expired stays expired.
type Leases interface {
	// Join begins a lease. When it returns, the store knows the epoch of the lease: logs that were opened in an
	// earlier epoch return ErrNewEpoch (REP-19).
	Join(ctx context.Context, name string, ttl time.Duration, types map[string]string) (Lease, error)
	// Renew extends the lease to ttl from now and replaces its types. It returns ErrFenced if the lease has expired.
	Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string) (Lease, error)
	// Leave ends the lease, which frees its shards. If the lease has already ended, Leave does nothing.
	Leave(ctx context.Context, fence uint64) error
	// Cluster returns the replicas and shards, and ends the leases that have expired.
	Cluster(ctx context.Context) (Cluster, error)
	// Establish creates n shards of the topic unless it has shards, and returns their number. The number is fixed
	// when a topic is first seen.
	Establish(ctx context.Context, topic string, n int) (int, error)
	// Claim assigns shards to the lease, each in a separate transaction. It skips a shard whose hold has changed or
	// whose owner's lease has not ended. It returns the shards that it assigned, and ErrFenced if the claiming lease
	// has ended.
	Claim(ctx context.Context, fence uint64, free []ShardFence) (won []Shard, err error)
	// Release gives up the shard. It returns ErrFenced if the hold is not current.
	Release(ctx context.Context, h ShardFence) error
}
