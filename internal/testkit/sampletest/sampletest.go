// Package sampletest selects the sample of a long test that an ordinary run covers. `make night` runs everything.
package sampletest

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"testing"
)

// Seed is the environment variable that chooses the sample. The Makefile sets it to the commit, so each commit uses a
// different sample.
const Seed = "MCPE_TEST_SEED"

// All is the environment variable that disables sampling.
const All = "MCPE_TEST_ALL"

// Whole reports whether sampling is disabled.
func Whole() bool { return os.Getenv(All) != "" }

// Rand returns the random source for the test's sample. If the test fails, it logs how to repeat the sample.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := os.Getenv(Seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%q repeats this sample", Seed, seed)
		}
	})
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed))))
}

// Draw returns n random elements of all, or all elements if sampling is disabled.
func Draw[E any](t testing.TB, all []E, n int) []E {
	t.Helper()
	if Whole() || n >= len(all) {
		return all
	}
	r := Rand(t)
	drawn := make([]E, n)
	for i, j := range r.Perm(len(all))[:n] {
		drawn[i] = all[j]
	}
	return drawn
}
