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
