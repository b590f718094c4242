//go:build unix

package reaper

import (
	"os/exec"
	"syscall"
)

// detach makes cmd start in a new session, so that it does not receive signals to the starter's process group, such as
// Ctrl-C.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// shutDown sends SIGQUIT, which makes PostgreSQL shut down immediately, or kills the process.
func (p process) shutDown(kill bool) {
	signal := syscall.SIGQUIT
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(p.ID, signal) // the process may have ended
}
