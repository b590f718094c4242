//go:build unix

package mcpe

import (
	"os/exec"
	"syscall"
)

const canKillGroups = true

// ownGroup makes the command the leader of a process group, to which what it starts belongs.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends the command's process group.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
