//go:build unix

package reaper

import (
	"os/exec"
	"syscall"
)

// apart gives the process a session of its own: what is sent to the starter's group, such as Ctrl-C, does not
// reach it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// end asks a process to end at once, by the signal on which PostgreSQL writes nothing down, or kills it.
func (p process) end(kill bool) {
	signal := syscall.SIGQUIT
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(p.ID, signal) // it may have ended
}
