//go:build !unix

package mcpe

import "os/exec"

// Without process groups a command's children could outlive its timeout.
const canKillGroups = false

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
