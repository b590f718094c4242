package shard

// Status returns the fence of the replica's current lease, or 0 if it has none, and the number of owned shards per
// topic.
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
