package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt/adopttest"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// applied runs init in a copy of a module, applies its edits and lets its emitters emit.
func applied(t *testing.T, from string, flags ...string) (dir string, edits []adopttest.Edit) {
	t.Helper()
	dir, said := adoptCopy(t, from, append(flags, "--format", "json")...)
	edits = adopttest.Parse(t, []byte(said))
	adopttest.Apply(t, dir, edits)
	adopttest.Emit(t, dir, edits)
	return dir, edits
}

// TestAdoptServers builds servers with the structure of public ones after the edits of init, with nothing added by
// hand, and receives their events next to what they had.
func TestAdoptServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	for from, tools := range map[string][]string{
		"struct":     {"ping", "read_note_added", "events_wait"},
		"perrequest": {"ping", "read_note_added", "events_wait"},
		"plain":      {"read_note_added", "events_wait"},
	} {
		t.Run(from, func(t *testing.T) {
			dir, edits := applied(t, "testdata/adopt/"+from)
			for _, e := range edits {
				if e.Line == 0 {
					t.Errorf("init leaves to a person: %+v", e)
				}
			}
			url := buildAdopted(t, dir)
			receive(t, client.HTTP(url, nil), `{}`, func() {}).Close()
			session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			var got []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, tool.Name)
			}
			slices.Sort(got)
			slices.Sort(tools)
			if !slices.Equal(got, tools) {
				t.Errorf("the tools are %q, want %q", got, tools)
			}
		})
	}
}

// TestAdoptCompiles compiles the edits for servers of mcp-go, of all forms, and for HTTP servers without a mux. The
// module internal/adopt/public runs the first two with the real mcp-go.
func TestAdoptCompiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	mcpGo := func(body string) string {
		return "package main\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/mark3labs/mcp-go/server\"\n)\n\nvar s, _ = server.NewMCPServer(\"a\", \"1\"), http.Handle\n\nfunc main() {\n" + body + "}\n"
	}
	web := func(handler string) map[string]string {
		return map[string]string{"main.go": "package main\n\nimport \"net/http\"\n\ntype app struct{ http.Handler }\n\nfunc main() {\n\t// The server.\n\terr := http.ListenAndServe(\":8080\", " + handler + ")\n\tpanic(err)\n}\n"}
	}
	for name, c := range map[string]struct {
		from  string
		files map[string]string
		want  []string
	}{
		"grafana":   {from: "testdata/adopt/grafana", want: []string{"mux.Handle(endpointPath, overlay.NewHandler(es, srv, overlay.Options{Ask: overlay.AskToolsList}))"}},
		"percaller": {from: "testdata/adopt/percaller/before", want: []string{"}, nil), overlay.Options{})"}},
		"terraform": {from: "testdata/adopt/terraform", want: []string{"NewSecurityHandler(overlay.NewHandler(es, baseStreamableServer, overlay.Options{}), "}},
		"started":   {files: map[string]string{"main.go": mcpGo("\tweb := server.NewStreamableHTTPServer(s)\n\tpanic(web.Start(\":8080\"))\n")}, want: []string{"mux.Handle(\"/mcp\", overlay.NewHandler(es, handler, overlay.Options{}))", "web := handler"}},
		"started with options": {files: map[string]string{"main.go": mcpGo("\topts := []server.StreamableHTTPOption{server.WithEndpointPath(\"/x\")}\n\tpanic(server.NewStreamableHTTPServer(s, opts...).Start(\":8080\"))\n")},
			want: []string{"append(opts, server.WithStreamableHTTPServer(", "mux.Handle(\"/x\", overlay.NewHandler(es, handler, "}},
		"mounted":      {files: map[string]string{"main.go": mcpGo("\thttp.Handle(\"/mcp\", server.NewStreamableHTTPServer(s))\n")}, want: []string{"http.Handle(\"/mcp\", overlay.NewHandler(es, server.NewStreamableHTTPServer(s), overlay.Options{}))"}},
		"served":       {files: map[string]string{"main.go": mcpGo("\tweb := server.NewStreamableHTTPServer(s)\n\tpanic((&http.Server{Handler: web}).ListenAndServe())\n")}, want: []string{"Handler: overlay.NewHandler(es, web, overlay.Options{})}"}},
		"default mux":  {files: web("nil"), want: []string{"mux.Handle(\"/\", http.DefaultServeMux)"}},
		"another type": {files: web("app{}"), want: []string{"mux.Handle(\"/\", app{})", "ListenAndServe(\":8080\", mux)", "\t// The server.\n\terr :="}},
	} {
		t.Run(name, func(t *testing.T) {
			from := c.from
			if from == "" {
				from = t.TempDir()
				c.files["go.mod"] = "module example.com/adopt\n\ngo 1.25.0\n\nrequire github.com/mark3labs/mcp-go v1.2.1\n"
				write(t, from, c.files)
			}
			dir, _ := applied(t, from)
			text := readText(t, filepath.Join(dir, "main.go"))
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			stubs, err := filepath.Abs("testdata/adopt/stubs")
			if err != nil {
				t.Fatal(err)
			}
			for _, stub := range []string{"github.com/mark3labs/mcp-go", "github.com/sirupsen/logrus"} {
				goRun(t, dir, "mod", "edit", "-replace="+stub+"="+filepath.Join(stubs, path.Base(stub)))
			}
			resolve(t, dir)
			goRun(t, dir, "list", "-export", "./...") // compiles and does not link
		})
	}
}

// TestAdoptUnknown refuses servers to which init cannot add events, and writes nothing without --force.
func TestAdoptUnknown(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]map[string]string{
		"github.com/metoro-io/mcp-golang, whose calls init does not know": {"go.mod": "module x\n\nrequire github.com/metoro-io/mcp-golang v0.1.0\n"},
		"ServeStdio at main.go:5":                                  {"go.mod": "module x\n", "main.go": "package main\n\nimport \"github.com/mark3labs/mcp-go/server\"\n\nfunc main() { server.ServeStdio(server.NewMCPServer(\"a\", \"1\")) }\n"},
		"no call in this module creates, mcp.Server at tools.go:5": {"go.mod": "module x\n", "tools.go": "package tools\n\nimport \"github.com/modelcontextprotocol/go-sdk/mcp\"\n\nfunc Add(*mcp.Server) {}\n"},
	} {
		dir := t.TempDir()
		write(t, dir, files)
		var stdout, stderr bytes.Buffer
		if code := run([]string{"init", dir, "--replace", checkout}, &stdout, &stderr, cli.VersionOf(nil)); code != exitUnknown || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit code %d, want %d and %q\n%s", code, exitUnknown, want, &stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != len(files) {
			t.Errorf("%s: init wrote %v, %v", want, left, err)
		}
		if code := run([]string{"init", dir, "--force", "--replace", checkout}, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
			t.Errorf("%s: with --force: exit code %d\n%s", want, code, &stderr)
		}
	}
}
