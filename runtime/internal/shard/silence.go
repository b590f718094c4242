package shard

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// silence tracks replicas that do not claim their shards: most likely they have died, and their leases have not
// expired. Without it, a process that dies repeatedly right after joining would always be assigned shards that nobody
// serves (REP-9).
type silence struct {
	free  map[engine.Shard]time.Duration // when a shard was first seen without an owner
	until map[uint64]time.Duration       // how long a fence is ignored
}

// patience is the number of looks for which a free shard waits for its planned owner. Then any replica may claim it.
const patience = 2

// share returns the plan for a cluster, and the shards that any replica may claim because their planned owners do
// not. A replica that was only slow is assigned shards once more after the duration of a lease.
func (o *Owner) share(s *session, c engine.Cluster, able func(r *engine.Replica, topic string) bool) (
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
	owners, anybodys = assign(c, willing), map[engine.Shard]bool{}
	passed := false
	for _, h := range c.Shards {
		since, ok := o.silent.free[h.Shard]
		switch f := owners[h.Shard]; {
		case live[h.Fence] != nil:
			delete(o.silent.free, h.Shard)
		case !ok:
			o.silent.free[h.Shard] = now
		case now-since >= patience*o.o.Look:
			anybodys[h.Shard] = own != nil && able(own, h.Shard.Topic)
			if f != 0 && f != s.fence {
				o.silent.until[f], passed = now+o.o.TTL, true
			}
		}
	}
	if passed {
		owners = assign(c, willing)
	}
	return owners, anybodys
}
