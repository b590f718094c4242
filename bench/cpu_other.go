//go:build !unix

package main

import "time"

var began = time.Now()

// cpuTime returns the elapsed time, because the CPU time is not measured on this system.
func cpuTime() time.Duration { return time.Since(began) }
