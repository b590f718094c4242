//go:build unix

package campaign

import (
	"os"
	"syscall"
)

// Pause suspends a process.
func Pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume resumes a process.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
