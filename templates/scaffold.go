package templates

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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

// CheckModule returns an error for an invalid module path. It rejects the paths that the go command
// rejects, and this module's path.
func CheckModule(p string) error {
	if err := module.CheckImportPath(p); err != nil {
		return fmt.Errorf("%q is not a module path: %w", p, errors.Unwrap(err))
	}
	if p == runtimePath {
		return fmt.Errorf("%q is the module of mcpe-gen itself", p)
	}
	return nil
}

// CheckUpstream returns an error unless text is the URL of an MCP server that a gateway can be in front of.
func CheckUpstream(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasPrefix(u.Path, "/events/") {
		return fmt.Errorf("%q must be an http or https URL of an MCP server, without a user or a query, and with a path outside of /events/", text)
	}
	return nil
}

// ProgramName returns the name of the program that "go build" creates for a module, for example "demo" for
// example.com/demo/v2. If the string is not a module path, it returns a valid file name.
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

// Replacement returns the target of a replace line for checkout in the go.mod in dir. It returns an absolute path
// unchanged and makes a relative path relative to dir. It returns an error if checkout does not contain this module.
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
	return p, nil
}

// relative returns the path of target relative to dir.
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
