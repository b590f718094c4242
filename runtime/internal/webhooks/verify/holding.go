package verify

import "maps"

// A Holding is a snapshot of the work in progress and the used quotas of a [Verifier].
type Holding struct {
	Flights  int            // verifications of a pair, running or waiting for a running one
	Fetching int            // documents of origins being fetched
	Open     int            // verifications that run or wait under a budget
	Owned    map[string]int // used quota by principal
	Total    int            // used quota in total
}

// Holding returns a snapshot of the verifier's state.
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
