package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxSize is the largest size of the stripped command in bytes; the bridge for several windows and its installation
// take 0.5 MB of it. The released one, without cgo and paths, has 150 KB less.
const maxSize = 28_950_000

// unlinked are the beginnings of the paths of packages that a command does not link, as users of the module require
// them too: the drivers of databases, which mcpe-ops has.
var unlinked = map[string][]string{
	".":               {"github.com/jackc/", "modernc.org/", "github.com/nats-io/"},
	"../mcpe-conform": {"github.com/jackc/", "modernc.org/", "github.com/nats-io/", "github.com/dave/jennifer", "golang.org/x/tools"},
	"../mcpe-ops":     {"github.com/nats-io/", "github.com/dave/jennifer", "golang.org/x/tools", "github.com/modelcontextprotocol/go-sdk"},
}

// TestLinks lists the packages of each command.
func TestLinks(t *testing.T) {
	t.Parallel()
	for dir, prefixes := range unlinked {
		imports := deps(t, dir)
		if len(imports) < 100 {
			t.Errorf("%s has %d packages", dir, len(imports))
		}
		for path := range imports {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) }) {
				t.Errorf("%s links %s: %s", dir, path, strings.Join(chain(imports, path), " imports "))
			}
		}
	}
	if got := strings.Join(chain(map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil}, "c"), " "); got != "a b c" {
		t.Errorf("the chain to c is %q", got)
	}
}

// deps returns the imports of each package that a command links.
func deps(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		imports[p.ImportPath] = p.Imports
	}
}

// chain returns the packages by which one is linked, from the command to path, each importing the next.
func chain(imports map[string][]string, path string) []string {
	by := []string{path}
	for {
		found := false
		for importer, of := range imports {
			if slices.Contains(of, by[0]) && !slices.Contains(by, importer) {
				by, found = slices.Insert(by, 0, importer), true
				break
			}
		}
		if !found {
			return by
		}
	}
}

// TestSize links the command stripped.
func TestSize(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds the command")
	}
	program := filepath.Join(t.TempDir(), "mcpe-gen")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > maxSize {
		t.Errorf("mcpe-gen has %d bytes, more than %d: go tool nm -size -sort size, of a build without -s -w, says what they are", info.Size(), maxSize)
	}
}
