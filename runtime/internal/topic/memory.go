package topic

import (
	"maps"
	"slices"
)

// A Holding is a snapshot of the state of a [Topic], excluding its log and records.
type Holding struct {
	Readers  []string // ids of subscriptions with a reader in the index
	Parked   int      // parked readers in the index
	Shapes   int      // shapes in the index
	Prepared int      // eventIds of appends in flight
}

// Holding returns a snapshot of the topic's state.
func (t *Topic) Holding() Holding {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := Holding{Readers: slices.Sorted(maps.Keys(t.index.byID)), Shapes: len(t.index.shapes), Prepared: len(t.pending)}
	t.index.visitReaders(func(r *Reader) {
		if r.slot >= 0 {
			h.Parked++
		}
	})
	return h
}
