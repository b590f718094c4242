// Package listeners provides a set of listeners that can be removed individually. It makes no compatibility promise.
package listeners

import (
	"iter"
	"slices"
	"sync"
)

// A Set is a set of listeners, which are usually functions. The zero value is an empty set. A Set is safe for
// concurrent use.
type Set[T any] struct {
	mu  sync.Mutex
	all []*T // never modified in place: All reads it without the lock
}

// Add adds a listener to the set. Calling remove removes it.
func (s *Set[T]) Add(l T) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clip(s.all), &l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(slices.Clone(s.all), func(o *T) bool { return o == &l })
	}
}

// All returns an iterator over the listeners in the order in which they were added. It yields the listeners that are
// present when the iteration starts. Listeners can be added and removed during the iteration.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		for _, l := range all {
			if !yield(*l) {
				return
			}
		}
	}
}
