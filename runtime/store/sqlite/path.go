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

// resolvePath returns the canonical path of the file, which SQLite also uses. The lock file is therefore the same for
// every path to the file.
func resolvePath(path string) (string, error) {
	switch {
	case path == "", strings.HasPrefix(path, ":memory:"):
		return "", fmt.Errorf("%q is not a file; use package memory for a store in memory", path)
	case strings.HasPrefix(path, "file:"):
		return "", errors.New("a path is required, not a URI; for a file with that name, use ./" + path)
	case strings.ContainsRune(path, 0):
		return "", errors.New("the path has a NUL byte")
	}
	return filelock.Resolve(path)
}

// minFileSize is the size in bytes of the smallest possible store.
const minFileSize = 4096

// createFile creates the file if it does not exist, accessible only by its owner. SQLite creates its journal with the
// same mode. The argument opened reports whether a lock file from an earlier Open exists. If so, a truncated file is an
// error, because SQLite would treat it as a new file and delete its journal.
func createFile(path string, opened bool) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return err // why the file could not be created
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case countLinks(info) > 1:
		// Each path would have its own journal, and one would overwrite the writes of the other.
		return fmt.Errorf("has %d hard links, but a database must have one", countLinks(info))
	case opened && info.Size() < minFileSize:
		return fmt.Errorf("%w: the store was truncated to %d bytes; restore its backup (docs/one-process.md), or remove it, %[3]s-wal and %[3]s-shm to start with an empty store",
			ErrCorrupt, info.Size(), path)
	}
	return nil
}

// warnOfModes logs a warning for each file of the store that other users can read or write. The files contain payloads
// and, without a key, plain-text secrets.
func warnOfModes(logger *slog.Logger, path string) {
	if runtime.GOOS == "windows" {
		return // Windows modes do not show who may read a file
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + filelock.Suffix} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&^0o600 != 0 {
			logger.Warn("mcp events: a file of the store is accessible to users other than its owner; 0600 is enough",
				"path", name, "mode", fmt.Sprintf("%#o", info.Mode().Perm()))
		}
	}
}
