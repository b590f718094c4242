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

// A location describes an output directory and its module.
type location struct {
	// dir is the output directory. base is the base directory for source names in headers: the module root, or dir
	// outside a module. Both are absolute.
	dir, base string
	// importPath is the import path of the package. It is empty outside a module.
	importPath string
}

// locate returns the location of an output directory. The directory need not exist.
func locate(out string) (location, error) {
	dir, err := filepath.Abs(out)
	if err != nil {
		return location{}, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil {
			h := location{dir: dir, base: at}
			if module := modfile.ModulePath(content); module != "" {
				rel, err := filepath.Rel(at, dir)
				if err != nil {
					return location{}, err
				}
				h.importPath = path.Join(module, filepath.ToSlash(rel))
			}
			return h, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !isNotDirectory(at) {
			return location{}, err
		}
		if at == filepath.Dir(at) {
			return location{dir: dir, base: dir}, nil
		}
	}
}

// isNotDirectory reports whether p is not a directory. If a file with that path exists, the error is returned later,
// when the output is written.
func isNotDirectory(p string) bool {
	info, err := os.Stat(p)
	return err != nil || !info.IsDir()
}

// sourceName returns the name of the file at p for a header. The name is relative to the base, with slashes and with
// escaped control characters. A line break would end the header comment.
func (h location) sourceName(p string) string {
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

// exists reports whether a file named in a header exists.
func (h location) exists(name string) bool {
	_, err := os.Stat(filepath.Join(h.base, filepath.FromSlash(name)))
	return err == nil
}
