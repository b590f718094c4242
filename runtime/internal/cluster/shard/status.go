package shard

// Status returns the fence of the replica's current lease and the number of owned shards per topic. The fence is 0
// without a lease.
func (o *Owner) Status() (fence uint64, owned map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owned = map[string]int{}
	if o.session == nil || o.session.lost {
		return 0, owned
	}
	for s, t := range o.ownerships {
		if t.session == o.session {
			owned[s.Topic]++
		}
	}
	return o.session.fence, owned
}
