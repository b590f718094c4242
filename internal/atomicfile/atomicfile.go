// Package atomicfile replaces files atomically. A reader sees either the old or the new content, even after a crash.
package atomicfile

import (
	"os"
	"path/filepath"
)

// Write writes data to a temporary file in the directory of path, syncs it and renames it to path. If an error occurs,
// it removes the temporary file and leaves path unchanged.
func Write(path string, data []byte) error {
	return WriteIf(path, data, func() error { return nil })
}

// WriteIf writes data to path as [Write] does, but calls check just before the rename. If check returns an error, WriteIf
// leaves path unchanged and returns the error.
func WriteIf(path string, data []byte, check func() error) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = check(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	// The rename is durable only after the directory is synced. Some systems cannot sync a directory.
	if d, derr := os.Open(dir); derr == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}
