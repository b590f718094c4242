package shard

import "time"

// A Clock is what a replica counts its lease by. Tests have clocks that run fast or slow, jump, or
// stand still.
type Clock interface {
	// Monotonic is the time since the clock was made, by one that nobody sets.
	Monotonic() time.Duration
	// Wall is the time of day as the replica knows it.
	Wall() time.Time
	// AfterFunc calls f after d in a goroutine of its own unless stop comes first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System is the clock of the process.
func System() Clock { return system{time.Now()} }

type system struct{ start time.Time }

func (c system) Monotonic() time.Duration { return time.Since(c.start) }

func (c system) Wall() time.Time { return time.Now().Round(0) }

func (c system) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
