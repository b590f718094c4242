//go:build unix

package reaper

import (
	"os/exec"
	"syscall"
)

// apart starts the process in a new session, so that signals to the starter's group, such as Ctrl-C, do not reach it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// end sends the signal for PostgreSQL's immediate shutdown, or kills the process.
func (p process) end(kill bool) {
	signal := syscall.SIGQUIT
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(p.ID, signal) // the process may have ended
}
