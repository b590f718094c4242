package repocheck

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// entries are the files and directories that the owner's card names at the top of the repository.
var entries = []string{"go.mod", "go.sum", "cmd/mcpe-gen", "gen", "runtime", "templates", "examples/schemas", "examples/generated", "golden",
	"README.md", "Makefile"}

// modules are those that the card names. Shipped code imports each of them.
var modules = []string{
	"github.com/dave/jennifer",
	"github.com/santhosh-tekuri/jsonschema/v6",
	"github.com/modelcontextprotocol/go-sdk",
	"github.com/spf13/cobra",
	"golang.org/x/tools",
}

// uses are the ways in which the card has the command used. A test does each as a user does: the file of the test has the
// text.
var uses = []struct{ name, file, text string }{
	{"go generate", "cmd/mcpe-gen/scaffold_test.go", `goRun(t, filepath.Join(dir, from), "generate", "example.com/demo")`},
	{"mcpe-gen init", "cmd/mcpe-gen/scaffold_test.go", `append([]string{"init", dir,`},
	{"golden files in CI: no change", "cmd/mcpe-gen/scaffold_test.go", `"go tool -modfile=tools/go.mod mcpe-gen generate --check"`},
	{"golden files in CI: a change", "cmd/mcpe-gen/testdata/script/generate.txtar", "\nexits 4 mcpe-gen generate incidents.yaml -o out --package incidents --diff --check\n"},
}

// TestCard compares the repository with the owner's card.
func TestCard(t *testing.T) {
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(e))); err != nil {
			t.Errorf("the card names %s: %v", e, err)
		}
	}
	imported := imports(t)
	for _, m := range modules {
		if imported[m] == "" {
			t.Errorf("the card names %s, which shipped code does not import", m)
		}
	}
	for _, u := range uses {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(u.file)))
		if err != nil || !strings.Contains(string(text), u.text) {
			t.Errorf("%s: %s does not have %q: %v", u.name, u.file, u.text, err)
		}
	}
}

// imports returns, for each module of the card, a file of shipped code that imports a package of it.
func imports(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range shipped(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range modules {
				if imported == m || strings.HasPrefix(imported, m+"/") {
					found[m] = f.path
				}
			}
		}
	}
	return found
}
