package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
)

// serverShapes are programs as people have them: VAR is the server's variable, SERVE what serves it.
var serverShapes = map[string]string{
	"main":  "func main() {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n}\n",
	"error": "func main() { _ = serve() }\n\nfunc serve() error {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n\treturn nil\n}\n",
	"none":  "func main() { serve() }\n\nfunc serve() {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n}\n",
	"value": "func main() { _ = serve() }\n\ntype app struct{}\n\nfunc serve() *app {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n\treturn &app{}\n}\n",
}

var servedBy = map[string]string{
	"http":  "http.Handle(\"/mcp\", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return VAR }, nil))",
	"sse":   "http.Handle(\"/sse\", mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return VAR }, nil))",
	"stdio": "_ = VAR.Run(context.Background(), &mcp.StdioTransport{})",
}

// E3: the lines that init prints compile where it says that they go, in functions of every shape, on every transport,
// for every source.
func TestAdoptLines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sources := [][]string{{"--source", "emit"}, {"--source", "check"}}
	for _, service := range starter.Services {
		sources = append(sources, []string{"--from", service})
	}
	sources = append(sources, []string{"--store", "sqlite", "--webhooks", "--auth", "bearer", "--console"},
		[]string{"--store", "postgres", "--auth", "oauth", "--console"})
	for _, source := range sources {
		t.Run(source[1], func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				name = filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			write("go.mod", "module example.com/adopt\n\ngo 1.26.0\n")
			write("go.sum", readText(t, "../../go.sum"))
			// All combinations for one source, all shapes for the others.
			names, packages := []string{"srv", "server", "s"}, 0
			if source[1] != "emit" {
				names = names[1:2]
			}
			for _, name := range names {
				for shape, text := range serverShapes {
					for transport, serve := range servedBy {
						if len(names) == 1 && source[1] != "sqlite" && transport != "http" {
							continue
						}
						packages++
						text := strings.NewReplacer("SERVE", serve).Replace(text)
						write(fmt.Sprintf("%s%s%s/main.go", name, shape, transport), "package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\n"+
							"\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n)\n\nvar (\n\timpl = &mcp.Implementation{Name: \"a\", Version: \"1\"}\n"+
							"\t_    = context.Background\n\t_    = http.Handle\n)\n\n"+strings.ReplaceAll(text, "VAR", name))
					}
				}
			}
			var stdout, stderr bytes.Buffer
			args := append([]string{"init", dir, "--replace", checkout, "--format", "json"}, source...)
			if code := run(args, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
				t.Fatalf("init: exit code %d\n%s", code, &stderr)
			}
			var result struct{ Steps []adopt.Step }
			if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if len(result.Steps) != 2*packages {
				t.Fatalf("%d steps", len(result.Steps))
			}
			for _, step := range result.Steps {
				name := filepath.Join(dir, filepath.FromSlash(step.Place.Path))
				text := readText(t, name)
				if step.Place.Kind == adopt.NewServer {
					text = strings.Replace(text, step.Place.Text+"\n", step.Place.Text+"\n"+strings.Join(step.Lines, "\n")+"\n", 1)
				} else {
					at := strings.Index(text, step.Place.Text)
					call := strings.Index(text[at:], "mcp.New") + at
					end := strings.Index(text[at:], ")\n") + at // the last of the line closes http.Handle
					if step.Place.Kind == adopt.Run {
						call, end = strings.Index(text[at:], "= ")+2+at, end+1
					}
					text = text[:call] + step.Lines[0] + text[end:]
				}
				if len(step.Imports) > 0 {
					text = strings.Replace(text, "import (\n", "import (\n"+strings.Join(step.Imports, "\n")+"\n", 1)
				}
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			goRun(t, dir, "list", "-deps", "./...", "tool")
			goRun(t, dir, "list", "-export", "./...") // compiles and does not link
		})
	}
}

// Of several files all are changed, or none.
func TestReplaceFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module long\n", "main.go": "old"})
	mod, main := adopt.Edit{Path: "go.mod", Old: []byte("module long\n"), New: []byte("module x\n")}, adopt.Edit{Path: "main.go", Old: []byte("old"), New: []byte("longer")}
	last := []adopt.Edit{{Path: "missing.go", Old: []byte("old"), New: []byte("new")}}
	if _, err := os.Stat("/dev/full"); err == nil { // which can be opened, and then takes nothing
		if err := os.Symlink("/dev/full", filepath.Join(dir, "full.go")); err != nil {
			t.Fatal(err)
		}
		last = append(last, adopt.Edit{Path: "full.go", Old: []byte("old"), New: []byte("new")})
	}
	for _, e := range last {
		if err := replaceFiles(dir, []adopt.Edit{mod, main, e}); err == nil {
			t.Errorf("%s was written", e.Path)
		}
		if m, s := readText(t, filepath.Join(dir, "go.mod")), readText(t, filepath.Join(dir, "main.go")); m != string(mod.Old) || s != "old" {
			t.Errorf("%s: the files are %q and %q", e.Path, m, s)
		}
	}
	if err := replaceFiles(dir, []adopt.Edit{mod, main}); err != nil {
		t.Fatal(err)
	}
	if m, s := readText(t, filepath.Join(dir, "go.mod")), readText(t, filepath.Join(dir, "main.go")); m != string(mod.New) || s != "longer" {
		t.Errorf("the files are %q and %q", m, s)
	}
}
