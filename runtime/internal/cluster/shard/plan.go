package shard

import (
	"cmp"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// planOwners computes the owner of each shard. The owner is 0 if no replica is eligible. The result is balanced among
// the live replicas and assigns each shard to an eligible replica, with as few moves as possible (REP-9). Replicas with
// the same view of the cluster compute the same result.
func planOwners(c engine.Cluster, eligible func(r *engine.Replica, topic string) bool) map[engine.Shard]uint64 {
	p := &plan{owners: make(map[engine.Shard]uint64, len(c.Shards)), load: map[uint64]int{}, held: map[uint64]map[string][]int{}, may: map[string][]uint64{}}
	for i := range c.Replicas {
		r := &c.Replicas[i]
		p.load[r.Fence], p.held[r.Fence] = 0, map[string][]int{}
		for _, h := range c.Shards {
			topic := h.Shard.Topic
			if able := p.may[topic]; eligible(r, topic) && !slices.Contains(able, r.Fence) {
				p.may[topic] = append(able, r.Fence)
			}
		}
	}
	var free []engine.Shard
	for _, h := range c.Shards {
		if slices.Contains(p.may[h.Shard.Topic], h.Fence) {
			p.assign(h.Shard, h.Fence)
		} else {
			free = append(free, h.Shard)
		}
	}
	for _, s := range free {
		if able := p.may[s.Topic]; len(able) > 0 {
			p.assign(s, slices.MinFunc(able, func(a, b uint64) int {
				return cmp.Or(cmp.Compare(p.load[a], p.load[b]), cmp.Compare(len(p.held[a][s.Topic]), len(p.held[b][s.Topic])), cmp.Compare(a, b))
			}))
		}
	}
	for p.moveShard() {
	}
	return p.owners
}

type plan struct {
	owners map[engine.Shard]uint64
	load   map[uint64]int              // number of shards, by replica
	held   map[uint64]map[string][]int // shard numbers in ascending order, by replica and topic
	may    map[string][]uint64         // eligible replicas, by topic; fences in ascending order
}

func (p *plan) assign(s engine.Shard, to uint64) {
	p.owners[s] = to
	p.load[to]++
	numbers := p.held[to][s.Topic]
	i, _ := slices.BinarySearch(numbers, s.Number)
	p.held[to][s.Topic] = slices.Insert(numbers, i, s.Number)
}

// moveShard moves one shard from a replica with more shards to a replica with fewer shards. It selects the pair with
// the greatest difference among the pairs between which a shard can move. It returns false if all differences are at
// most one shard.
func (p *plan) moveShard() bool {
	var from, to uint64
	topic, gain, spread := "", 1, 0
	for t, able := range p.may {
		for _, a := range able {
			if len(p.held[a][t]) == 0 {
				continue
			}
			for _, b := range able {
				g, s := p.load[a]-p.load[b], len(p.held[a][t])-len(p.held[b][t])
				if c := cmp.Or(cmp.Compare(g, gain), cmp.Compare(s, spread), cmp.Compare(topic, t), cmp.Compare(from, a), cmp.Compare(to, b)); g > 1 && (gain == 1 || c > 0) {
					from, to, topic, gain, spread = a, b, t, g, s
				}
			}
		}
	}
	if gain == 1 {
		return false
	}
	numbers := p.held[from][topic]
	last := numbers[len(numbers)-1]
	p.held[from][topic] = numbers[:len(numbers)-1]
	p.load[from]--
	p.assign(engine.Shard{Topic: topic, Number: last}, to)
	return true
}
