//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// links is the number of the file's names.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
