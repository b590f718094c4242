package main

import (
	"os"
	"syscall"
)

// peakMemory returns the peak memory of a process in bytes.
func peakMemory(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return int64(u.Maxrss) << 10
	}
	return 0
}
