package subscriber

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
)

// A Holding is a snapshot of the state of [Subscriptions], without the records.
type Holding struct {
	Live         []string // ids
	Locks        int      // locked ids
	Verification verify.Holding
	// Found is the size in bytes of the unsettled occurrences from checks. Counted is the value of Found that the
	// readers track to enforce the limit MaxFoundBytes.
	Found, Counted int
}

// Holding returns the current state.
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
