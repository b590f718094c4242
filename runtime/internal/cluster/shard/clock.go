package shard

import "time"

// A Clock measures a replica's lease. Tests use clocks that run fast or slow, jump or stop.
type Clock interface {
	// Monotonic returns the time since the clock was created, according to a clock that is never set.
	Monotonic() time.Duration
	// Wall returns the replica's wall-clock time.
	Wall() time.Time
	// AfterFunc calls f in a separate goroutine after d, unless stop is called first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System returns a Clock that uses the process's system clock.
func System() Clock { return system{time.Now()} }

type system struct{ start time.Time }

func (c system) Monotonic() time.Duration { return time.Since(c.start) }

func (c system) Wall() time.Time { return time.Now().Round(0) }

func (c system) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
