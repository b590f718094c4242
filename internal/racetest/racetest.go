// Package racetest lets tests repeat less under the race detector, which makes them several times slower.
package racetest

// Runs returns how often a test repeats its work: n times, or a tenth of that under the race detector. It is at least once.
func Runs(n int) int {
	if Enabled {
		return max(1, n/10)
	}
	return n
}
