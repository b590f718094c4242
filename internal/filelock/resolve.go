package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Resolve returns the one name of a file: absolute and without symbolic links, also when the file, or the file that a
// link points to, does not exist yet.
func Resolve(path string) (string, error) {
	const maxLinks = 40 // as the systems have it
	for range maxLinks {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Abs(resolved)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		// Nothing is cleaned before its links are followed: link/.. is not where link lies.
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
			return filepath.Abs(path) // no link: the file does not exist
		}
		if !filepath.IsAbs(target) {
			target = dir + string(filepath.Separator) + target
		}
		path = target
	}
	return "", errors.New("too many symbolic links")
}
