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

// A home is where an output directory belongs.
type home struct {
	// dir is the output directory, base the directory that headers name sources from: the root of
	// the module, or dir itself without one. Both are absolute.
	dir, base string
	// importPath is the package's, empty outside a module.
	importPath string
}

// locate finds the module that holds an output directory, which need not exist yet.
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

// isNotDirectory tells a file in the way, which writing will report, from a failure to read.
func isNotDirectory(p string) bool {
	info, err := os.Stat(p)
	return err != nil || !info.IsDir()
}

// name is how headers name the file at p: relative to the base, with slashes, and with hidden characters escaped. A
// header is a comment, which a line end would end.
func (h home) name(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return plain.Text(filepath.Base(p))
	}
	rel, err := filepath.Rel(h.base, abs)
	if err != nil { // another volume
		return plain.Text(filepath.Base(p))
	}
	return plain.Text(filepath.ToSlash(rel))
}

// exists reports whether the file that a header names is there.
func (h home) exists(name string) bool {
	_, err := os.Stat(filepath.Join(h.base, filepath.FromSlash(name)))
	return err == nil
}
