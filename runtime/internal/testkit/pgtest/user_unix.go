//go:build unix

package pgtest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// unprivilegedUser returns the user that runs PostgreSQL if the current user is root. PostgreSQL refuses to run as
// root.
func unprivilegedUser() (uid, gid int, ok bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil {
			return uid, gid, true
		}
	}
	return 0, 0, false
}

func (c *Cluster) prepare() error {
	uid, gid, ok := unprivilegedUser()
	if !ok {
		return nil
	}
	return os.Chown(c.dir, uid, gid)
}

func asOther(cmd *exec.Cmd) {
	if uid, gid, ok := unprivilegedUser(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
