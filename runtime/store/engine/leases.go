package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// A Shard names a part of the work that only one replica may do. See REP-6.
type Shard struct {
	// Topic is an event type, whose webhook subscriptions are divided, or one of OutboxTopic and
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
	// Replicas are those whose lease has not expired, in order of their fences.
	Replicas []Replica
	// Shards are in order of topic and number. A fence that no replica has is free to claim.
	Shards []Hold
}

// Leases are what ownership rests on. Expiry is judged by the store's clock. A lease that has once
// been seen expired never becomes current again.
type Leases interface {
	// Join begins a lease. When it returns, the store knows the epoch that the lease is of: its logs of before
	// return ErrNewEpoch (REP-19).
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
