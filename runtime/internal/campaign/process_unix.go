//go:build unix

package campaign

import (
	"os"
	"syscall"
)

// Pause lets a process stand still.
func Pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
