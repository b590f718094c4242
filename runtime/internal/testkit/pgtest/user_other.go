//go:build !unix

package pgtest

import "os/exec"

func (*Cluster) prepare() error { return nil }

func asOther(*exec.Cmd) {}
