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

// Lead makes the command, which has not started, the head of a new process group.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate requests the group of p to end. It returns [os.ErrProcessDone] if the group is empty.
func Terminate(p *os.Process) error { return signal(p, syscall.SIGTERM) }

// Kill kills every process in the group of p. It returns [os.ErrProcessDone] if the group is empty. The group ID
// stays in use while a process is in the group.
func Kill(p *os.Process) error { return signal(p, syscall.SIGKILL) }

func signal(p *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-p.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
