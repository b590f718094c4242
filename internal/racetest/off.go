//go:build !race

package racetest

// Enabled reports whether the race detector is part of the program.
const Enabled = false
