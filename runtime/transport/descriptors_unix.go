//go:build unix

package transport

import "syscall"

// descriptorLimit returns the process's limit on open file descriptors. It returns false if the limit is unknown.
func descriptorLimit() (limit uint64, ok bool) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return uint64(r.Cur), err == nil
}
