package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt/adopttest"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
	"github.com/mcpe-gen/mcpe-gen/gen"
)

// serverShapes are programs as people have them: VAR is the server's variable, SERVE what serves it.
var serverShapes = map[string]string{
	"main":        "func main() {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n}\n",
	"error":       "func main() { _ = serve() }\n\nfunc serve() error {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n\treturn nil\n}\n",
	"none":        "func main() { serve() }\n\nfunc serve() {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n}\n",
	"value":       "func main() { _ = serve() }\n\ntype app struct{}\n\nfunc serve() *app {\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n\treturn &app{}\n}\n",
	"constructor": "func main() {\n\tVAR := newServer()\n\tSERVE\n}\n\nfunc newServer() *mcp.Server {\n\tmade := mcp.NewServer(impl, nil)\n\treturn made\n}\n",
	"constructorerror": "func main() {\n\tVAR, err := newServer()\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tSERVE\n}\n\n" +
		"func newServer() (*mcp.Server, error) {\n\treturn mcp.NewServer(impl, nil), nil\n}\n",
	"commands": "func main() {\n\tswitch {\n\tcase impl == nil:\n\t\tVAR := mcp.NewServer(impl, nil)\n\t\tSERVE\n\tdefault:\n\t\tpanic(1)\n\t}\n}\n",
	"logrus":   "import log \"github.com/sirupsen/logrus\"\n\nfunc main() {\n\tVAR := mcp.NewServer(impl, nil)\n\tlog.Info(1)\n\tSERVE\n}\n",
	"otherlog": "import log \"example.com/adopt/log\"\n\nfunc main() {\n\tVAR := mcp.NewServer(impl, nil)\n\tlog.Info(1)\n\tSERVE\n}\n",
	"names": "import \"log\"\n\nfunc main() {\n\tlog.Print()\n\tlog, os, transport, events, notesserver, githubserver, es := 1, 2, 3, 4, 5, 6, 7\n\tVAR := mcp.NewServer(impl, nil)\n\tSERVE\n" +
		"\tprintln(log, os, transport, events, notesserver, githubserver, es)\n}\n",
}

var servedBy = map[string]string{
	"http":  "http.Handle(\"/mcp\", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return VAR }, nil))",
	"sse":   "http.Handle(\"/sse\", mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return VAR }, nil))",
	"stdio": "_ = VAR.Run(context.Background(), &mcp.StdioTransport{})",
}

// E3: the edits that init prints compile as they are, in functions of every shape, on every transport,
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
	if os.Getenv("MCPE_GEN_SCAFFOLDS") == "all" { // the exporters are on this machine
		sources = append(sources, []string{"--metrics", "prometheus"}, []string{"--metrics", "otlp", "--from", "github"})
	}
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
			const logrus = "github.com/sirupsen/logrus"
			write("go.mod", "module example.com/adopt\n\ngo 1.26.0\n\nrequire "+logrus+" v1.9.3\n\nreplace "+logrus+" => ./logrus\n")
			for name, text := range map[string]string{"logrus/go.mod": "module " + logrus + "\n\ngo 1.26.0\n", "logrus/logrus.go": "package logrus\n\nfunc Fatal(...any) {}\n\nfunc Info(...any) {}\n",
				"log/log.go": "package log\n\nfunc Fatal(int) {}\n\nfunc Info(int) {}\n"} {
				write(name, text)
			}
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
							"\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n)\n\n"+strings.ReplaceAll(text, "VAR", name)+
							"\nvar (\n\timpl = &mcp.Implementation{Name: \"a\", Version: \"1\"}\n\t_    = context.Background\n\t_    = http.Handle\n)\n")
					}
				}
			}
			var stdout, stderr bytes.Buffer
			args := append([]string{"init", dir, "--replace", checkout, "--format", "json"}, source...)
			if code := run(args, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
				t.Fatalf("init: exit code %d\n%s", code, &stderr)
			}
			edits := adopttest.Parse(t, stdout.Bytes())
			if last := edits[len(edits)-1]; len(edits) != 2*packages || last.Line == 0 {
				t.Fatalf("%d edits for %d packages, last %+v", len(edits), packages, last)
			}
			adopttest.Apply(t, dir, edits)
			if source[0] == "--metrics" {
				requireExporters(t, dir)
			}
			resolve(t, dir)
			goRun(t, dir, "list", "-export", "./...") // compiles and does not link
		})
	}
}

// All files are changed, or stay as they were.
func TestOverwrite(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module long\n", "tools/go.mod": "module t\n"})
	update := func(name string) gen.File {
		return gen.File{Path: name, Old: []byte("module long\n"), Content: []byte("module x\n")}
	}
	name := filepath.Join(dir, "go.mod")
	for _, second := range []string{"tools", "missing/go.mod"} { // a directory, and a file in none
		if err := overwrite(dir, []gen.File{update("go.mod"), update(second)}); err == nil || readText(t, name) != "module long\n" {
			t.Errorf("%s: go.mod is %q, %v", second, readText(t, name), err)
		}
	}
	if err := overwrite(dir, []gen.File{update("go.mod"), update("tools/go.mod")}); err != nil || readText(t, name) != "module x\n" ||
		readText(t, filepath.Join(dir, "tools", "go.mod")) != "module x\n" {
		t.Errorf("go.mod is %q, %v", readText(t, name), err)
	}
}
