//go:build !unix

package main

import "time"

var began = time.Now()

// cpuTime returns the elapsed time on systems whose CPU time is not measured.
func cpuTime() time.Duration { return time.Since(began) }
