// Package draw draws the values that conformance checks try from the classes of their requirements. A run's seed
// repeats its values.
package draw

import (
	"hash/fnv"
	"math/rand/v2"
)

// A Source draws values. Sources of one seed and one name draw the same values.
type Source struct {
	seed uint64
	rand *rand.Rand
}

// New returns the source of a seed.
func New(seed uint64) *Source {
	return &Source{seed: seed, rand: rand.New(rand.NewPCG(seed, 0))}
}

// For returns the source of a check or another part of a run. It depends only on the seed of s and the name, so the
// order of the checks changes no value.
func (s *Source) For(name string) *Source {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // It never fails.
	return New(s.seed ^ h.Sum64())
}

// IntN returns a number from 0 to n-1.
func (s *Source) IntN(n int) int { return s.rand.IntN(n) }

// Pick returns one of the values.
func Pick[T any](s *Source, from []T) T { return from[s.IntN(len(from))] }

// Some returns n of the values in a random order, or all if there are fewer.
func Some[T any](s *Source, n int, from []T) []T {
	some := make([]T, min(n, len(from)))
	for i, j := range s.rand.Perm(len(from))[:len(some)] {
		some[i] = from[j]
	}
	return some
}
