// Package sampletest draws the part of a long test that an ordinary run tries. `make night` tries the whole.
package sampletest

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"testing"
)

// Seed is the environment variable that chooses the sample. The Makefile sets it to the commit, so that each commit
// tries another part.
const Seed = "MCPE_TEST_SEED"

// All is the environment variable that makes a test try everything.
const All = "MCPE_TEST_ALL"

// Whole reports whether the test tries everything.
func Whole() bool { return os.Getenv(All) != "" }

// Rand returns the random numbers of the test's sample. A test that fails prints how to repeat the sample.
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

// Draw returns n elements of all, or all of them if the test tries everything.
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
