package shard

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// silence is what a replica makes of others that do not take what is theirs: most likely they have died,
// and their leases go on for a while. Without it a process that dies again and again as soon as it has
// joined would be given work all the time that nobody does (REP-9).
type silence struct {
	free  map[engine.Shard]time.Duration // since when a shard was seen to be nobody's
	until map[uint64]time.Duration       // how long a fence is passed over
}

// patience is how many looks a free shard waits for who should take it. Then it is anybody's.
const patience = 2

// share is the plan for a cluster, and which shards are anybody's because who should take them does not. A
// replica that only was slow is given work again when a lease's time is over.
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
