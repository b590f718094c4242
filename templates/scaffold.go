package templates

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// runtimePath is the module that a scaffold requires.
const runtimePath = "github.com/mcpe-gen/mcpe-gen"

var (
	notInName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	majorSuffix = regexp.MustCompile(`^v[0-9]+$`)
)

// CheckModule says what is wrong with a module path, if anything is. It refuses what the go command
// would refuse, and this module's own path.
func CheckModule(p string) error {
	if err := module.CheckImportPath(p); err != nil {
		return fmt.Errorf("%q is not a module path: %w", p, errors.Unwrap(err))
	}
	if p == runtimePath {
		return fmt.Errorf("%q is the module of mcpe-gen itself", p)
	}
	return nil
}

// ProgramName is what "go build" calls the program of a module, for example "demo" for
// example.com/demo/v2. Of any other string it is what a file may be called.
func ProgramName(module string) string {
	name := path.Base(module)
	if majorSuffix.MatchString(name) && strings.Contains(module, "/") {
		name = path.Base(path.Dir(module))
	}
	name = strings.Trim(notInName.ReplaceAllString(name, "-"), "-_")
	if name == "" {
		return "server"
	}
	return name
}

// Replacement is the right side of the replace line in the go.mod of dir that names checkout: an
// absolute path as given, a relative one as seen from dir. It is an error when checkout does not
// hold this module.
func Replacement(dir, checkout string) (string, error) {
	data, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s has no go.mod", checkout)
		}
		return "", err
	}
	if modfile.ModulePath(data) != runtimePath {
		return "", fmt.Errorf("the module in %s is not %s", checkout, runtimePath)
	}
	p := checkout
	if !filepath.IsAbs(p) {
		if p, err = relative(dir, p); err != nil {
			return "", err
		}
		p = filepath.ToSlash(p)
		if p != ".." && !strings.HasPrefix(p, "../") {
			p = "./" + p
		}
	}
	return modfile.AutoQuote(p), nil
}

// relative is target as seen from dir.
func relative(dir, target string) (string, error) {
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// An ExistsError tells which files are in the way of a scaffold.
type ExistsError struct {
	Dir   string
	Paths []string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already has %s; nothing was written", e.Dir, strings.Join(e.Paths, ", "))
}

// Write creates files in dir, which need not exist. If one of them is there already, or one of the
// paths in taken is, it writes nothing and returns an [ExistsError] that names them all.
func Write(dir string, files []File, taken ...string) error {
	present := &ExistsError{Dir: dir}
	check := func(p string) error {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(p)))
		switch {
		case err == nil:
			present.Paths = append(present.Paths, p)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return nil
	}
	for _, f := range files {
		if err := check(f.Path); err != nil {
			return err
		}
	}
	for _, p := range taken {
		if err := check(p); err != nil {
			return err
		}
	}
	if len(present.Paths) > 0 {
		return present
	}
	for _, f := range files {
		if err := create(filepath.Join(dir, filepath.FromSlash(f.Path)), f.Content); err != nil {
			return err
		}
	}
	return nil
}

// create writes a file that must not exist: what appeared since the check is not overwritten either.
func create(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
