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

// theirs are the files that a new repository of a forge has. They stay; the lists get the lines that they lack.
var theirs = map[string]bool{"README.md": false, ".gitignore": true, ".gitattributes": true}

// Present is what [Write] found of the files that a new repository of a forge has.
type Present struct {
	// Kept are the paths of files that stay as they are, Extended of those that got lines.
	Kept, Extended []string
}

// Write creates files in dir, which need not exist. If one of them is there already, or one of the
// paths in taken is, it writes nothing and returns an [ExistsError] that names them all. A README.md that is there
// stays, and .gitignore and .gitattributes get the lines that they lack.
func Write(dir string, files []File, taken ...string) (Present, error) {
	var present Present
	exists := &ExistsError{Dir: dir}
	there := func(p string) (bool, error) {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(p)))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	var lists, fresh []File
	for _, f := range files {
		is, err := there(f.Path)
		if err != nil {
			return present, err
		}
		switch list, known := theirs[f.Path]; {
		case !is:
			fresh = append(fresh, f)
		case !known:
			exists.Paths = append(exists.Paths, f.Path)
		case list:
			lists = append(lists, f)
		default:
			present.Kept = append(present.Kept, f.Path)
		}
	}
	for _, p := range taken {
		is, err := there(p)
		if err != nil {
			return present, err
		}
		if is {
			exists.Paths = append(exists.Paths, p)
		}
	}
	if len(exists.Paths) > 0 {
		return present, exists
	}
	for _, f := range fresh {
		if err := create(filepath.Join(dir, filepath.FromSlash(f.Path)), f.Content); err != nil {
			return present, err
		}
	}
	for _, f := range lists {
		extended, err := extend(filepath.Join(dir, filepath.FromSlash(f.Path)), f.Content)
		if err != nil {
			return present, err
		}
		if extended {
			present.Extended = append(present.Extended, f.Path)
		} else {
			present.Kept = append(present.Kept, f.Path)
		}
	}
	return present, nil
}

// extend appends the lines of a list that a file lacks, comments aside; false when it has them all.
func extend(name string, content []byte) (bool, error) {
	old, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(old)) {
		have[strings.TrimSpace(line)] = true
	}
	var more strings.Builder
	for line := range strings.Lines(string(content)) {
		if l := strings.TrimSpace(line); l != "" && !strings.HasPrefix(l, "#") && !have[l] {
			more.WriteString(l + "\n")
		}
	}
	if more.Len() == 0 {
		return false, nil
	}
	lead := ""
	if len(old) > 0 && old[len(old)-1] != '\n' {
		lead = "\n"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(lead + more.String())
	return true, errors.Join(err, f.Close())
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
