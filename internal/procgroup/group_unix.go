//go:build unix

package procgroup

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Supported reports whether the system has process groups.
const Supported = true

// Lead makes cmd start as the leader of a new process group.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate sends SIGTERM to the process group of p. It returns [os.ErrProcessDone] if the group is empty.
func Terminate(p *os.Process) error { return signal(p, syscall.SIGTERM) }

// Kill kills every process in the process group of p. It returns [os.ErrProcessDone] if the group is empty. The group
// ID is not reused while the group has a process.
func Kill(p *os.Process) error { return signal(p, syscall.SIGKILL) }

func signal(p *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-p.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
