//go:build unix

package transport

import "syscall"

// descriptorLimit returns the process's limit of open descriptors. ok is false if it is unknown.
func descriptorLimit() (limit uint64, ok bool) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return uint64(r.Cur), err == nil
}
