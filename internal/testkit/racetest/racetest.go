// Package racetest reduces the repetitions of tests under the race detector, which makes tests several times slower.
package racetest

// Runs returns the number of repetitions for a test: n, or a tenth of n under the race detector. It is at least once.
func Runs(n int) int {
	if Enabled {
		return max(1, n/10)
	}
	return n
}
