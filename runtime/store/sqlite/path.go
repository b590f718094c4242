package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
)

// resolve returns the one name of the file. SQLite goes by that name too, so that the lock beside the file is the same
// whatever name it was opened by.
func resolve(path string) (string, error) {
	switch {
	case path == "", strings.HasPrefix(path, ":memory:"):
		return "", fmt.Errorf("%q is not a file; package memory keeps a store in memory", path)
	case strings.HasPrefix(path, "file:"):
		return "", errors.New("a path is needed, not a URI; for a file of that name write ./" + path)
	case strings.ContainsRune(path, 0):
		return "", errors.New("the path has a NUL byte")
	}
	return filelock.Resolve(path)
}

// create makes the file when it does not exist, readable by its owner only. SQLite gives the files
// that it makes beside it the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return err // why it could not be made
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case links(info) > 1:
		// Each name would have its own journal: what one wrote, the other would overwrite.
		return fmt.Errorf("has %d hard links, but a database must have one", links(info))
	}
	return nil
}

// warnOfModes says which of the store's files others may read or write: payloads and, without a
// key, secrets lie in them.
func warnOfModes(logger *slog.Logger, path string) {
	if runtime.GOOS == "windows" {
		return // its modes say nothing of who may read
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + filelock.Suffix} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&^0o600 != 0 {
			logger.Warn("mcp events: a file of the store is accessible to users other than its owner; 0600 is enough",
				"path", name, "mode", fmt.Sprintf("%#o", info.Mode().Perm()))
		}
	}
}
