package shard

// Status tells whether the replica has a lease now, and how many shards of each topic it owns by it.
func (o *Owner) Status() (leased bool, owned map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owned = map[string]int{}
	if o.session == nil || o.session.lost {
		return false, owned
	}
	for s, t := range o.tenures {
		if t.session == o.session {
			owned[s.Topic]++
		}
	}
	return true, owned
}
