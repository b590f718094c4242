//go:build !unix

package transport

// descriptorLimit returns false, because the system has no such limit.
func descriptorLimit() (limit uint64, ok bool) { return 0, false }
