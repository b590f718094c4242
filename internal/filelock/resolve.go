package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Resolve returns the absolute path of a file without symbolic links. The file, or the target of its link, need not
// exist.
func Resolve(path string) (string, error) {
	const maxLinks = 40 // the usual limit of operating systems
	for range maxLinks {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Abs(resolved)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		// Do not clean the path before links are resolved: link/.. is not the directory that contains link.
		dir, base := filepath.Split(path)
		if base == "" || base == "." || base == ".." {
			return "", err
		}
		if dir == "" {
			dir = "."
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		path = filepath.Join(dir, base)
		target, err := os.Readlink(path)
		if err != nil {
			return filepath.Abs(path) // the file does not exist
		}
		if !filepath.IsAbs(target) {
			target = dir + string(filepath.Separator) + target
		}
		path = target
	}
	return "", errors.New("too many symbolic links")
}
