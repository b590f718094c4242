package templates

import (
	"bytes"
	"go/format"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

func scaffold(transport string) Scaffold {
	return Scaffold{Module: "example.com/demo", Name: "demo", Transport: transport, GoVersion: "1.26.0", Version: "v0.1.0"}
}

// The go command must see neither a module nor Go files in here, and all: must find everything.
func TestEveryTemplateEndsInTmpl(t *testing.T) {
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(name, ".tmpl") {
			t.Errorf("%s does not end in .tmpl", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRenderGivesFormattedGoInPathOrder(t *testing.T) {
	for _, transport := range Transports {
		files, err := Render(scaffold(transport))
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, f := range files {
			paths = append(paths, f.Path)
			if bytes.Contains(f.Content, []byte("{{")) || bytes.Contains(f.Content, []byte("<no value>")) {
				t.Errorf("%s %s: an action is left over", transport, f.Path)
			}
			if path.Ext(f.Path) != ".go" {
				continue
			}
			formatted, err := format.Source(f.Content)
			if err != nil {
				t.Errorf("%s %s: %v", transport, f.Path, err)
			} else if !bytes.Equal(formatted, f.Content) {
				t.Errorf("%s %s is not gofmt-formatted", transport, f.Path)
			}
		}
		if !slices.IsSorted(paths) {
			t.Errorf("%s: paths are not sorted: %q", transport, paths)
		}
		for _, want := range []string{".gitignore", "README.md", "events/notes.yaml", "generate.go", "go.mod", "main.go", "mcpe.yaml", "server.go", "server_test.go"} {
			if !slices.Contains(paths, want) {
				t.Errorf("%s: %s is missing from %q", transport, want, paths)
			}
		}
	}
}

func TestGoModHasToolRequireAndReplace(t *testing.T) {
	for replace, want := range map[string]string{
		"":           "module example.com/demo\n\ngo 1.26.0\n\ntool github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen\n\nrequire github.com/mcpe-gen/mcpe-gen v0.1.0\n",
		"../mcpegen": "module example.com/demo\n\ngo 1.26.0\n\ntool github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen\n\nrequire github.com/mcpe-gen/mcpe-gen v0.1.0\n\nreplace github.com/mcpe-gen/mcpe-gen => ../mcpegen\n",
	} {
		s := scaffold("stdio")
		s.Replace = replace
		files, err := Render(s)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == "go.mod" })
		if got := string(files[i].Content); got != want {
			t.Errorf("replace %q: go.mod is\n%s\nwant\n%s", replace, got, want)
		}
	}
}

func TestRenderRefusesAnUnknownTransport(t *testing.T) {
	if _, err := Render(scaffold("pigeon")); err == nil || !strings.Contains(err.Error(), "stdio, http") {
		t.Errorf("got %v, want an error that names the transports", err)
	}
}
