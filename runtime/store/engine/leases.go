package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A Shard is a unit of work that only one replica can perform at a time. See REP-6.
type Shard struct {
	// Topic is OutboxTopic, RetentionTopic or an event type. The webhook subscriptions of an event type are divided
	// into shards.
	Topic string
	// Number starts at 0.
	Number int
}

// Compare orders shards by topic and number.
func (s Shard) Compare(other Shard) int {
	return cmp.Or(strings.Compare(s.Topic, other.Topic), cmp.Compare(s.Number, other.Number))
}

func (s Shard) String() string { return fmt.Sprintf("%s#%d", s.Topic, s.Number) }

// A ShardFence identifies a shard and its owner's lease. Fence is 0 if the shard has no owner. Every write by an owner
// includes a ShardFence.
type ShardFence struct {
	Shard Shard
	Fence uint64
}

// A Lease gives a process the role of a replica. The replica measures the lease with its own clock, starting when it
// sends the request. See REP-6.
type Lease struct {
	// Fence is the fencing token. It is greater than the fence of every earlier lease and never 0.
	Fence uint64
	// Now is the store's time when the lease was granted or last renewed.
	Now time.Time
}

// A Replica is a process with a lease.
type Replica struct {
	// Name is chosen by the process and shown to operators.
	Name  string
	Fence uint64
	// Types maps the event types that the replica has registered to the fingerprints of their schemas. See REP-16.
	Types map[string]string
	// Report contains the replica's figures for operators, as JSON of the runtime. It can be nil.
	Report json.RawMessage
}

// A Cluster lists the replicas and the owners of the shards.
type Cluster struct {
	// Replicas are the replicas with unexpired leases, ordered by fence.
	Replicas []Replica
	// Shards are ordered by topic and number. A shard can be claimed if no replica has its fence.
	Shards []ShardFence
}

// Leases manages the leases of replicas and the ownership of shards. The store's clock decides when a lease expires.
// Once observed as expired, a lease remains expired.
type Leases interface {
	// Join acquires a lease. After it returns, logs that were opened in an earlier epoch than that of the lease return
	// ErrNewEpoch (REP-19).
	Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (Lease, error)
	// Renew extends the lease to ttl from now and replaces its types and report. It returns ErrFenced if the lease has
	// expired.
	Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (Lease, error)
	// Leave ends the lease, which frees its shards. If the lease has already ended, Leave does nothing.
	Leave(ctx context.Context, fence uint64) error
	// Cluster returns the replicas and shards, and removes expired leases.
	Cluster(ctx context.Context) (Cluster, error)
	// Establish creates n shards for the topic unless the topic already has shards, and returns their number. The
	// number of shards never changes.
	Establish(ctx context.Context, topic string, n int) (int, error)
	// Claim assigns free shards to the lease, each in a separate transaction. It skips a shard if the shard's fence has
	// changed or its owner's lease has not ended. It returns the assigned shards, and ErrFenced if the claiming lease
	// has ended.
	Claim(ctx context.Context, fence uint64, free []ShardFence) (won []Shard, err error)
	// Release releases the shard. It returns ErrFenced if h is not current.
	Release(ctx context.Context, h ShardFence) error
}
