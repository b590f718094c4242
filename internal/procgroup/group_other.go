//go:build !unix

package procgroup

import (
	"os"
	"os/exec"
)

// Supported reports whether the system has process groups.
const Supported = false

// Lead does nothing.
func Lead(*exec.Cmd) {}

// Terminate kills p, because the system does not have a signal that requests termination.
func Terminate(p *os.Process) error { return p.Kill() }

// Kill kills p, but not the processes that p started.
func Kill(p *os.Process) error { return p.Kill() }
