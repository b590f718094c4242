//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// countLinks returns the number of hard links to the file.
func countLinks(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
