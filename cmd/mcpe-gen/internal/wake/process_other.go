//go:build !unix

package wake

import (
	"os"
	"os/exec"
)

func group(*exec.Cmd) {}

// terminate kills the command: there is no signal to ask it by.
func terminate(p *os.Process) error { return p.Kill() }

func kill(*os.Process) {}
