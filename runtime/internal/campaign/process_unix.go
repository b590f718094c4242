//go:build unix

package main

import (
	"os"
	"syscall"
)

// pause lets a process stand still.
func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets it go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
