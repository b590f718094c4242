package topic

import (
	"maps"
	"slices"
)

// A Holding is what a [Topic] keeps at a moment, beside its log and records.
type Holding struct {
	Readers  []string // ids of subscriptions with a reader in the index
	Parked   int      // readers in the index that wait
	Shapes   int      // of the index
	Prepared int      // eventIds of appends under way
}

// Holding tells what the topic keeps.
func (t *Topic) Holding() Holding {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := Holding{Readers: slices.Sorted(maps.Keys(t.index.byID)), Shapes: len(t.index.shapes), Prepared: len(t.pending)}
	t.index.each(func(r *Reader) {
		if r.slot >= 0 {
			h.Parked++
		}
	})
	return h
}
