package shard

// Status returns the fence of the lease that the replica has now, 0 for none, and how many shards of each topic it owns by it.
func (o *Owner) Status() (fence uint64, owned map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owned = map[string]int{}
	if o.session == nil || o.session.lost {
		return 0, owned
	}
	for s, t := range o.tenures {
		if t.session == o.session {
			owned[s.Topic]++
		}
	}
	return o.session.fence, owned
}
