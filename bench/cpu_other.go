//go:build !unix

package main

import "time"

var began = time.Now()

// cpuTime is the time that has passed, where that of the processor is not asked for.
func cpuTime() time.Duration { return time.Since(began) }
