package shard

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// silentReplicas tracks replicas that do not claim their shards. These replicas have probably crashed, and their leases
// have not yet expired. Otherwise, a process that repeatedly crashes right after it joins would be assigned shards that
// it never serves (REP-9).
type silentReplicas struct {
	free  map[engine.Shard]time.Duration // when a shard was first seen without an owner
	until map[uint64]time.Duration       // how long a fence is ignored
}

// maxSilentLooks is the number of looks for which a free shard is reserved for its planned owner. After these looks,
// all replicas can claim it.
const maxSilentLooks = 2

// assignShards returns the planned owners of the shards in a cluster. It also returns the shards that all replicas can
// claim because their planned owners have not claimed them. If a replica was only slow, it is assigned shards again
// after the duration of a lease.
func (o *Owner) assignShards(s *session, c engine.Cluster, able func(r *engine.Replica, topic string) bool) (
	owners map[engine.Shard]uint64, anybodys map[engine.Shard]bool) {
	live := make(map[uint64]*engine.Replica, len(c.Replicas))
	for i := range c.Replicas {
		live[c.Replicas[i].Fence] = &c.Replicas[i]
	}
	own, now := live[s.fence], o.o.Clock.Monotonic()
	for f, until := range o.silent.until {
		if live[f] == nil || now >= until {
			delete(o.silent.until, f)
		}
	}
	willing := func(r *engine.Replica, topic string) bool {
		_, over := o.silent.until[r.Fence]
		return !over && able(r, topic)
	}
	owners, anybodys = planOwners(c, willing), map[engine.Shard]bool{}
	passed := false
	for _, h := range c.Shards {
		since, ok := o.silent.free[h.Shard]
		switch f := owners[h.Shard]; {
		case live[h.Fence] != nil:
			delete(o.silent.free, h.Shard)
		case !ok:
			o.silent.free[h.Shard] = now
		case now-since >= maxSilentLooks*o.o.Look:
			anybodys[h.Shard] = own != nil && able(own, h.Shard.Topic)
			if f != 0 && f != s.fence {
				o.silent.until[f], passed = now+o.o.TTL, true
			}
		}
	}
	if passed {
		owners = planOwners(c, willing)
	}
	return owners, anybodys
}
