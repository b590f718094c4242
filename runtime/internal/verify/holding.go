package verify

import "maps"

// A Holding is what a [Verifier] keeps at a moment: the work under way, and what counts towards quotas.
type Holding struct {
	Flights  int            // verifications of a pair, under way or waiting for one that is
	Fetching int            // documents of origins being fetched
	Open     int            // verifications whose outcome the budget waits for, or that wait for the budget
	Owned    map[string]int // places of the quota by principal
	Total    int            // places of the quota in all
}

// Holding tells what the verifier keeps.
func (v *Verifier) Holding() Holding {
	h := Holding{Flights: v.flights.Len(), Fetching: v.receivers.fetching.Len()}
	v.quota.mu.Lock()
	h.Owned, h.Total = maps.Clone(v.quota.owned), v.quota.total
	v.quota.mu.Unlock()
	v.budget.mu.Lock()
	defer v.budget.mu.Unlock()
	for _, f := range v.budget.byKey {
		h.Open += f.running + len(f.waiting)
	}
	return h
}
