//go:build !unix

package procgroup

import (
	"os"
	"os/exec"
)

// Lead does nothing: there are no groups.
func Lead(*exec.Cmd) {}

// Terminate kills the command: there is no signal to ask it by.
func Terminate(p *os.Process) error { return p.Kill() }

// Kill kills the command.
func Kill(p *os.Process) { _ = p.Kill() }
