package gen

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// A home describes the place of an output directory in its module.
type home struct {
	// dir is the output directory, and base the directory that source names in headers are relative to: the module
	// root, or dir outside a module. Both are absolute.
	dir, base string
	// importPath is the import path of the package, empty outside a module.
	importPath string
}

// locate finds the module that contains an output directory. The directory need not exist.
func locate(out string) (home, error) {
	dir, err := filepath.Abs(out)
	if err != nil {
		return home{}, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil {
			h := home{dir: dir, base: at}
			if module := modfile.ModulePath(content); module != "" {
				rel, err := filepath.Rel(at, dir)
				if err != nil {
					return home{}, err
				}
				h.importPath = path.Join(module, filepath.ToSlash(rel))
			}
			return h, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !isNotDirectory(at) {
			return home{}, err
		}
		if at == filepath.Dir(at) {
			return home{dir: dir, base: dir}, nil
		}
	}
}

// isNotDirectory reports whether a file stands in place of a directory. The later write reports that error.
func isNotDirectory(p string) bool {
	info, err := os.Stat(p)
	return err != nil || !info.IsDir()
}

// name returns the name of the file at p for a header: relative to the base, with slashes, with control characters
// escaped. A line break would end the header, which is a comment.
func (h home) name(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return plain.Text(filepath.Base(p))
	}
	rel, err := filepath.Rel(h.base, abs)
	if err != nil { // on another volume
		return plain.Text(filepath.Base(p))
	}
	return plain.Text(filepath.ToSlash(rel))
}

// exists reports whether the file that a header names exists.
func (h home) exists(name string) bool {
	_, err := os.Stat(filepath.Join(h.base, filepath.FromSlash(name)))
	return err == nil
}
