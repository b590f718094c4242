//go:build unix

package plugin

import (
	"os/exec"
	"syscall"
)

// group makes the program the head of a process group, which is ended as a whole: a plugin is often a script around
// the program that works.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
