// Package listeners keeps a set of listeners from which each can be removed. It makes no promise of compatibility.
package listeners

import (
	"iter"
	"slices"
	"sync"
)

// A Set is a set of listeners, mostly functions. The zero value is empty. It is safe for concurrent use.
type Set[T any] struct {
	mu  sync.Mutex
	all []*T // never modified in place: All reads it without the lock
}

// Add adds a listener until remove is called.
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

// All yields the listeners present when it starts, in the order in which they were added. They may add and remove
// listeners.
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
