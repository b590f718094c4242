package subscriber

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
)

// A Holding is what [Subscriptions] keep at a moment, beside their records.
type Holding struct {
	Live         []string // ids
	Locks        int      // ids of which one is begun or ended
	Verification verify.Holding
	// Found is what checks have found and nobody has settled, in bytes; Counted is the same as it is
	// bounded.
	Found, Counted int
}

// Holding tells what the subscriptions keep.
func (w *Subscriptions) Holding() Holding {
	h := Holding{Locks: w.keys.Len(), Verification: w.verifier.Holding()}
	w.mu.Lock()
	h.Live = slices.Sorted(maps.Keys(w.byID))
	live := slices.Collect(maps.Values(w.byID))
	w.mu.Unlock()
	for _, l := range live {
		if r, ok := l.reader.(*feedReader); ok {
			r.mu.Lock()
			h.Counted += r.bytes
			for i := range r.found {
				h.Found += r.found[i].size()
			}
			r.mu.Unlock()
		}
	}
	return h
}
