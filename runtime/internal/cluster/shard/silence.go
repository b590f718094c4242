package shard

import (
	"maps"
	"slices"
	"strings"
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

// reportDeaths logs a warning for each replica that has disappeared since the last look and still has shards. A replica
// that shuts down releases its shards before it leaves, or announces closingType. A new epoch ends the leases of all
// replicas, including this one, and is not a death.
func (o *Owner) reportDeaths(s *session, c engine.Cluster) {
	before := o.seen
	o.seen = c
	leased := func(c engine.Cluster, fence uint64) bool {
		return slices.ContainsFunc(c.Replicas, func(r engine.Replica) bool { return r.Fence == fence })
	}
	owned := func(c engine.Cluster, fence uint64) (n int) {
		for _, h := range c.Shards {
			if h.Fence == fence {
				n++
			}
		}
		return n
	}
	if !leased(before, s.fence) || !leased(c, s.fence) {
		return
	}
	for _, r := range before.Replicas {
		if _, closing := r.Types[closingType]; !closing && !leased(c, r.Fence) && owned(c, r.Fence) > 0 {
			o.o.Logger.Warn("mcp events: a replica has died or is cut off: its lease expired, and its shards are taken over",
				"replica", r.Name, "shards", owned(before, r.Fence))
		}
	}
}

// topicsOf returns the topics of the shards, sorted and separated by spaces.
func topicsOf(shards []engine.Shard) string {
	topics := map[string]bool{}
	for _, s := range shards {
		topics[s.Topic] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(topics)), " ")
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
