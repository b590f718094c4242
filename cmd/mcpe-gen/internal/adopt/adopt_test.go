package adopt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt/adopttest"
)

var added = Wiring{Import: "example.com/x/internal/notes/notesserver", Name: "notes", Events: []Event{{GoName: "NoteAdded", Source: "emit"}}}

// writeModule writes Go files into a directory and finds the places in them.
func writeModule(t *testing.T, files map[string]string) (string, *Found) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, found
}

func TestRequire(t *testing.T) {
	r := Requirement{GoVersion: "1.26.0", Version: "v0.2.0"}
	for name, c := range map[string]struct {
		in, replace string
		modules     []string
		want, lacks []string
	}{
		"bare":     {in: "module x\n", want: []string{"go 1.26.0\n", "require " + RuntimePath + " v0.2.0\n"}, lacks: []string{ToolPath}},
		"new tool": {in: "module x\n", want: []string{"tool " + ToolPath, "require " + RuntimePath + " v0.2.0\n"}},
		"older": {in: "module x\n\ngo 1.22\n\ntoolchain go1.22.3\n\nrequire " + RuntimePath + " v0.1.0 // why\n",
			want: []string{"go 1.26.0\n", "v0.2.0 // why"}, lacks: []string{"toolchain", "v0.1.0"}},
		"newer": {in: "module x\n\ngo 1.28\n\ntoolchain go1.29.1\n\nrequire " + RuntimePath + " v1.0.0 // indirect\n",
			want: []string{"go 1.28\n", "toolchain go1.29.1\n", RuntimePath + " v1.0.0\n"}, lacks: []string{"v0.2.0"}},
		"blocks": {in: "module x\n\ngo 1.26.0\n\nrequire (\n\ta.com/a v1.0.0\n)\n\nrequire (\n\tb.com/b v1.0.0 // indirect\n)\n",
			want: []string{"\ta.com/a v1.0.0\n\t" + RuntimePath + " v0.2.0\n)", "require b.com/b v1.0.0 // indirect\n"}},
		"replaced": {in: "module x\n\nreplace " + RuntimePath + " => ../a b\n", replace: "../with space",
			want: []string{"replace " + RuntimePath + " => \"../with space\"\n"}},
		"another module": {in: "module x\n", replace: "../m", modules: []string{"runtime/store/jetstream"},
			want: []string{"\t" + RuntimePath + " v0.2.0\n", "\t" + RuntimePath + "/runtime/store/jetstream v0.2.0\n",
				RuntimePath + "/runtime/store/jetstream => ../m/runtime/store/jetstream\n"}},
		"another module beside one that is replaced": {in: "module x\n\nreplace " + RuntimePath + " => ../m\n", modules: []string{"runtime/store/jetstream"},
			want: []string{RuntimePath + "/runtime/store/jetstream => ../m/runtime/store/jetstream\n"}},
		"tool that is there": {in: "module x\n\ntool " + ToolPath + "\n", want: []string{"tool " + ToolPath + "\n"}},
		"fork":               {in: "module x\n\nreplace " + RuntimePath + " => example.com/fork v0.3.0\n", want: []string{"=> example.com/fork v0.3.0\n"}},
		"crlf":               {in: "module x\r\n\r\ngo 1.26.0\r\n", want: []string{"go 1.26.0\r\n", "v0.2.0\r\n"}},
	} {
		if name == "replaced" {
			c.in = strings.Replace(c.in, "../a b", "../a", 1)
		}
		m, err := ParseModule("go.mod", []byte(c.in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.Replacement.Path, r.Modules, r.Tool = c.replace, c.modules, strings.Contains(name, "tool")
		out, err := m.Require(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if strings.Count(string(out), want) != 1 {
				t.Errorf("%s: %q is not in it once:\n%s", name, want, out)
			}
		}
		for _, lacks := range c.lacks {
			if strings.Contains(string(out), lacks) {
				t.Errorf("%s: %q is in it:\n%s", name, lacks, out)
			}
		}
	}
	if _, err := ParseModule("go.mod", []byte("go 1.26\n")); err == nil {
		t.Error("a go.mod without a module line is taken")
	}
}

// Places are found under any name of the import, and nowhere else.
func TestFind(t *testing.T) {
	const sdk = `"github.com/modelcontextprotocol/go-sdk/mcp"`
	_, found := writeModule(t, map[string]string{
		"a/a.go": "package a\nimport m " + sdk + "\nfunc f() {\n\ts := m.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n" +
			"func g(s *m.Server, c cmd) {\n\ts.Run(nil, &m.StdioTransport{})\n\tc.Run(nil, &m.Tool{})\n}\n",
		"b.go":               "package b\nimport . " + sdk + "\nvar s = NewServer(nil, nil)\nvar h = NewSSEHandler(nil, nil)\n",
		"hidden.go":          "package b\nimport " + sdk + "\nfunc f(mcp other) { mcp.NewServer(nil, nil) }\nvar _ mcp.Tool\n",
		"other.go":           "package b\nimport \"example.com/mcp\"\n// github.com/modelcontextprotocol/go-sdk/mcp\nvar s2 = mcp.NewServer()\n",
		"broken.go":          "package b\nimport " + sdk + "\nfunc {\n",
		"b_test.go":          "package b\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		"vendor/v/v.go":      "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		"testdata/v.go":      "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		"_old/v.go":          "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		"nested/go.mod":      "module nested\n",
		"nested/v.go":        "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		"node_modules/v.go":  "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
		".hidden/v/hidde.go": "package v\nimport " + sdk + "\nvar t = mcp.NewServer(nil, nil)\n",
	})
	var got []string
	for _, p := range found.Places {
		got = append(got, p.Path+" "+string(p.Kind)+" "+strings.TrimSpace(p.file.lines(p.Line, p.Line)))
	}
	want := []string{"a/a.go NewServer s := m.NewServer(nil, nil)", "a/a.go Run s.Run(nil, nil)", "a/a.go Run s.Run(nil, &m.StdioTransport{})",
		"b.go NewServer var s = NewServer(nil, nil)", "b.go NewSSEHandler var h = NewSSEHandler(nil, nil)"}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(found.Broken, []string{"broken.go"}) {
		t.Errorf("broken: %q", found.Broken)
	}
}

const head = "package %\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\n\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n)\n\n"

func program(pkg, body string) string { return strings.Replace(head, "%", pkg, 1) + body }

// edited applies the edits of the module to main.go. It returns the text and the notes.
func edited(t *testing.T, w Wiring, dir string, found *Found) (text, notes string) {
	t.Helper()
	document, err := json.Marshal(map[string]any{"edits": w.Edits(dir, found)})
	if err != nil {
		t.Fatal(err)
	}
	edits := adopttest.Parse(t, document)
	adopttest.Apply(t, dir, edits)
	for _, e := range edits {
		notes += e.Note + "\n"
		if e.Line == 0 {
			notes += e.Insert
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(after), notes
}

// The edits of functions of other shapes than main's have nothing left to do.
func TestEdits(t *testing.T) {
	for name, c := range map[string]struct {
		text        string
		want, lacks []string
	}{
		"stdio, results": {
			text: program("app", "func run(ctx context.Context, _ http.Header) (n int, _ *mcp.Server, err error) {\n"+
				"\ts := mcp.NewServer(nil, nil) // the server\n\treturn 0, s, s.Run(ctx, &mcp.StdioTransport{})\n}\n"),
			want: []string{"// the server\n\tes, err := server.New(s, server.Options{})\n", "return *new(int), nil, err\n",
				"transport.Run(ctx, es, &mcp.StdioTransport{})"},
			lacks: []string{"\"log\""},
		},
		"names that are taken, err declared behind, net/http left over": {
			text: program("main", "func main() {\n\tserver := mcp.NewServer(nil, nil)\n\tnotesserver, es, transport := 1, 2, 3\n"+
				"\thandle(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts))\n"+
				"\terr := context.Cause(nil)\n\t_, _, _, _ = notesserver, es, transport, err\n}\n"),
			want: []string{"eventServer, eventsErr := eventserver.New(server, eventserver.Options{})",
				"if eventsErr != nil {\n\t\tlog.Fatal(eventsErr)\n", "noteAdded, eventsErr := eventnotesserver.RegisterNoteAdded(",
				"eventnotesserver \"example.com/x/internal/notes/notesserver\"\n", "\t\"log\"\n",
				"eventtransport.NewHandler(eventServer, eventtransport.HandlerOptions{Streamable: opts})"},
			lacks: []string{"net/http", "NewStreamableHTTPHandler"},
		},
		"the emitter's name is taken": {
			text:  program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\tnoteAdded := 1\n\ts.Run(nil, noteAdded)\n}\n"),
			want:  []string{"noteAddedEmitter, err := notesserver.RegisterNoteAdded(", "_ = noteAddedEmitter // noteAddedEmitter.Emit tells"},
			lacks: []string{"noteAdded, err"},
		},
		"a single import": {
			text: "package main\n\nimport \"github.com/modelcontextprotocol/go-sdk/mcp\"\n\nfunc main() {\n" +
				"\ts := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n",
			want: []string{"import (\n\t\"example.com/x/internal/notes/notesserver\"\n"},
		},
		"a clause": {
			text: program("main", "func main() {\n\tswitch {\n\tcase true:\n\t\ts := mcp.NewServer(nil, nil)\n\t\ts.Run(nil, nil)\n\t}\n}\n"),
			want: []string{"\t\tes, err := server.New(s, server.Options{})\n\t\tif err != nil {\n\t\t\tlog.Fatal(err)\n", "\t\ttransport.Run(nil, es, nil)\n"},
		},
		"a parameter": {
			text: program("main", "func main() { run(nil) }\n\nfunc run(s *mcp.Server) error {\n\t// On stdio.\n\treturn s.Run(nil, &mcp.StdioTransport{})\n}\n"),
			want: []string{"error {\n\tes, err := server.New(s, server.Options{})\n\tif err != nil {\n\t\treturn err\n", "\t// On stdio.\n\treturn transport.Run(nil, es, "},
		},
		"a call": {
			text: program("main", "func main() {\n\tnewServer().Run(nil, &mcp.StdioTransport{})\n}\n"),
			want: []string{"\tes, err := server.New(newServer(), server.Options{})\n", "\ttransport.Run(nil, es, "},
		},
		"a field of the receiver, served twice": {
			text: program("main", "func (a *app) routes() error {\n\tuse(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return a.mcp }, nil))\n\treturn a.mcp.Run(nil, &mcp.StdioTransport{})\n}\n"),
			want: []string{"error {\n\tes, err := server.New(a.mcp, server.Options{})\n", "\tuse(transport.NewHandler(es, transport.HandlerOptions{}))\n\treturn transport.Run(nil, es, "},
		},
		"a field": {
			text: program("main", "func main() {\n\ta := new(app)\n\ta.srv = mcp.NewServer(nil, nil)\n\ta.srv.Run(nil, &mcp.StdioTransport{})\n}\n"),
			want: []string{"es, err := server.New(a.srv, server.Options{})", "\ttransport.Run(nil, es, &mcp.StdioTransport{})\n"},
		},
		"a constructor with an error": {
			text: program("main", "func newServer() (*mcp.Server, error) {\n\ts := mcp.NewServer(nil, nil)\n\treturn s, nil\n}\n\n"+
				"func main() {\n\ts, err := newServer()\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\ts.Run(nil, &mcp.StdioTransport{})\n}\n"),
			want: []string{"\treturn s, nil\n", "\t\tpanic(err)\n\t}\n\tes, err := server.New(s, server.Options{})\n", "\ttransport.Run(nil, es, &mcp.StdioTransport{})\n"},
		},
		"a constructor without an error, with options, of another package's kind": {
			text: program("app", "func New(opts ...int) *mcp.Server {\n\treturn bare()\n}\n\nfunc bare() *mcp.Server { return mcp.NewServer(nil, nil) }\n\n"+
				"func Run(ctx context.Context) error {\n\tsrv := New(1, 2)\n\treturn srv.Run(ctx, &mcp.StdioTransport{})\n}\n"),
			want:  []string{"\tsrv := New(1, 2)\n\tes, err := server.New(srv, server.Options{})\n\tif err != nil {\n\t\treturn err\n", "\treturn transport.Run(ctx, es, "},
			lacks: []string{"log.Fatal"},
		},
		"two handlers on a line": {
			text: program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\tget := func(*http.Request) *mcp.Server { return s }\n\t_ = get\n"+
				"\tuse(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil), mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil))\n}\n"),
			want: []string{"\tuse(transport.NewHandler(es, transport.HandlerOptions{}), transport.NewSSEHandler(s, es, nil))\n", "\"net/http\""},
		},
		"net/http, which the lines use": {
			text: program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\tuse(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))\n}\n"),
			want: []string{"\t\"net/http\"\n", "\tmetadata := http.NewServeMux()\n", "server.Options{Authorize: tokens.Authorize}", "\tuse(tokens.RequireToken(transport.NewHandler(es, transport.HandlerOptions{})))\n"},
		},
		"log is another package": {
			text: strings.Replace(program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n"), "\"context\"", "log \"example.com/log\"", 1),
			want: []string{"\t\tfmt.Fprintln(os.Stderr, err)\n\t\tos.Exit(1)\n", "\"fmt\"\n", "\"os\"\n"}, lacks: []string{"log.Fatal", "\t\"log\""},
		},
		"log is logrus": {
			text: strings.Replace(program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n"), "\"context\"", "log \"github.com/sirupsen/logrus\"", 1),
			want: []string{"\t\tlog.Fatal(err)\n"}, lacks: []string{"\t\"log\"", "fmt"},
		},
		"log and os are variables": {
			text: strings.Replace(program("main", "func main() {\n\tlog, os := 1, 2\n\ts := mcp.NewServer(nil, nil)\n\ts.Run(log, os)\n}\n"), "\"context\"", "\"log\"", 1),
			want: []string{"\t\tfmt.Fprintln(eventos.Stderr, err)\n\t\teventos.Exit(1)\n", "eventos \"os\"\n"},
		},
		"log is a name of another file": {
			text: program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n"),
			want: []string{"fmt.Fprintln(os.Stderr, err)"},
		},
	} {
		files := map[string]string{"main.go": c.text}
		if name == "log is a name of another file" {
			files["other.go"] = "package main\n\nvar log = 1\n"
		}
		dir, found := writeModule(t, files)
		w := added
		if name == "net/http, which the lines use" {
			w.Auth, w.Setup = "oauth", "example.com/x/internal/eventsetup"
		}
		text, notes := edited(t, w, dir, found)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, text)
			}
		}
		for _, lacks := range c.lacks {
			if strings.Contains(text, lacks) {
				t.Errorf("%s: %q is in\n%s", name, lacks, text)
			}
		}
		if notes = strings.TrimSpace(notes); notes != "" {
			t.Errorf("%s: the notes are %s", name, notes)
		}
	}
}

// What the edits leave to the user is in their notes.
func TestNotes(t *testing.T) {
	const made, handler = "\ts := mcp.NewServer(nil, nil)\n", "mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)"
	for want, text := range map[string]string{
		"Line 10 is outside of functions: these lines go to the start of the function that serves the server, s": program("main", "var s = mcp.NewServer(nil, nil)\n"),
		"Line 10 has other code: these lines go before its call, with s for the server.":                         program("main", "func main() { s := mcp.NewServer(nil, nil); s.Run(nil, nil) }\n"),
		"change func f() to func f() error, and its callers":                                                     program("app", "func f() {\n"+made+"\ts.Run(nil, nil)\n}\n"),
		"change func f(n int) *app to func f(n int) (*app, error)":                                               program("app", "func f(n int) *app {\n"+made+"\treturn &app{s}\n}\n"),
		"change func f() (a *app) to func f() (a *app, err error)":                                               program("app", "func f() (a *app) {\n"+made+"\treturn &app{s}\n}\n"),
		"No call of mcp.NewStreamableHTTPHandler or Run was found":                                               program("main", "func main() {\n"+made+"\t_ = s\n}\n"),
		"use this type instead of *mcp.StreamableHTTPHandler":                                                    program("main", "func main() {\n"+made+"\tvar h *mcp.StreamableHTTPHandler = "+handler+"\n\tuse(h)\n}\n"),
		"A loop makes several servers here":                                                                      program("main", "func main() {\n\tfor _, o := range owners {\n\t"+made+"\tuse(o, "+handler+")\n\t}\n}\n"),
		"There are several servers":                                                                              program("main", "func main() {\n"+made+"\tt := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n\tt.Run(nil, nil)\n}\n"),
		"This file does not parse":                                                                               program("main", "func main() {\n"+made+"\ts.Run(nil, nil)\n"),
		"This function creates a server with events":                                                             "package main\n\nfunc main() {}\n",
	} {
		dir, found := writeModule(t, map[string]string{"main.go": text})
		if _, notes := edited(t, added, dir, found); !strings.Contains(notes, want) {
			t.Errorf("the notes are\n%s\nwant %q", notes, want)
		}
	}
}

// E2: where a request creates or chooses the server, it stays, and the events are served next to it, whatever the form
// is. One that a function only names gets lines.
func TestOverlaid(t *testing.T) {
	const sdk = "\"github.com/modelcontextprotocol/go-sdk/mcp\""
	const makes = "func (a *app) serverFor(owner string) *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\t_ = owner\n\treturn srv\n}\n"
	const once = "func (a *app) run() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n"
	for name, c := range map[string]struct {
		text     string
		overlaid bool
	}{
		"a call":     {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.serverFor(r.Host) }, nil)) }\n", true},
		"SSE":        {makes + "func (a *app) run() { use(mcp.NewSSEHandler(func(r *http.Request) *mcp.Server { return a.serverFor(r.Host) }, nil)) }\n", true},
		"a variable": {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {\n\ts := a.serverFor(r.Host)\n\treturn s\n}, nil)) }\n", true},
		"inside":     {"func run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {\n\ts := mcp.NewServer(nil, nil)\n\treturn s\n}, nil)) }\n", true},
		"a method":   {makes + "func (a *app) get(r *http.Request) *mcp.Server { return a.serverFor(r.Host) }\nfunc (a *app) run() { use(mcp.NewStreamableHTTPHandler(a.get, nil)) }\n", true},
		"a map":      {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.all[r.Host] }, nil)) }\n", true},
		"a field of what a call makes": {"func newSession(r *http.Request) *session {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn &session{server: srv}\n}\n" +
			"func run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return newSession(r).server }, nil)) }\n", true},
		"by way of another function": {"func open(r *http.Request) *session { return (&session{}).start() }\nfunc (s *session) start() *session {\n\tsrv := mcp.NewServer(nil, nil)\n" +
			"\ts.server = srv\n\treturn s\n}\nfunc run() { use(mcp.NewSSEHandler(func(r *http.Request) *mcp.Server { return (open(r)).server }, nil)) }\n", true},
		"a field of what an index gives": {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.sessions[r.Host].server }, nil)) }\n", true},
		"a field of a variable":          {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {\n\ts := a.session(r)\n\treturn s.server\n}, nil)) }\n", true},
		"a named result":                 {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) (s *mcp.Server) {\n\ts = a.serverFor(r.Host)\n\treturn s\n}, nil)) }\n", true},
		"a bare return":                  {makes + "func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) (s *mcp.Server) {\n\ts = a.serverFor(r.Host)\n\treturn\n}, nil)) }\n", true},
		"a function in a variable":       {"func run() {\n\tget := func(r *http.Request) *mcp.Server {\n\t\ts := mcp.NewServer(nil, nil)\n\t\treturn s\n\t}\n\tuse(mcp.NewStreamableHTTPHandler(get, nil))\n}\n", true},
		"where a request is answered": {"func newServer() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc handle(w http.ResponseWriter, r *http.Request) {\n\tserver := newServer()\n" +
			"\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil).ServeHTTP(w, r)\n}\n", true},
		"behind a function value":                                   {"func newServer() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tsrv, err := a.factory(r)\n\t_ = err\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", true},
		"behind a function value, assigned":                         {"func newServer() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tvar srv *mcp.Server\n\tsrv = a.factory(r)\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", true},
		"behind a function value, in a wrapper":                     {"func open() *session {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn &session{srv}\n}\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\ts := a.factory(r)\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, nil).ServeHTTP(w, r)\n}\n", true},
		"behind a second hop":                                       {"func newServer() *mcp.Server { return bare(1) }\nfunc bare(n int) *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc handle(w http.ResponseWriter, r *http.Request) {\n\tsrv := newServer()\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", true},
		"one, that a handler for each request takes from a field":   {"func (a *app) start() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n}\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tsrv := a.srv\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", true},
		"one, that a handler for each request takes from a method":  {"func (a *app) start() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n}\nfunc (a *app) server() *mcp.Server { return a.srv }\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tsrv := a.server()\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", true},
		"one, that a handler for each request takes from around it": {"func newServer() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc run() {\n\tsrv := newServer()\n\thttp.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) {\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n})\n}\n", true},
		"in a literal that answers": {"func run() {\n\thttp.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) {\n\t\tsrv := mcp.NewServer(nil, nil)\n" +
			"\t\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n\t})\n}\n", true},
		"an alias": {"type Server = mcp.Server\ntype owned = *Server\n" + strings.Replace(makes, "*mcp.Server", "owned", 1) +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) owned { return a.all[r.Host] }, nil)) }\n", true},
		"another Server": {"type Server = mcp.Server\nfunc (a *app) listen() *http.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.all[\"\"] = srv\n\treturn nil\n}\n" +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *Server { return a.all[r.Host] }, nil)) }\n", true},
		"a loop": {"func (a *app) run() {\n\tfor _, owner := range a.owners {\n\t\tsrv := mcp.NewServer(nil, nil)\n\t\ta.all[owner] = srv\n\t}\n" +
			"\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.all[r.Host] }, nil))\n}\n", true},
		"a function that a loop calls": {"func (a *app) add(owner string) {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.all[owner] = srv\n}\nfunc (a *app) run() {\n\tfor _, owner := range a.owners {\n" +
			"\t\tgo a.add(owner)\n\t}\n\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.all[r.Host] }, nil))\n}\n", true},
		"one, beside a loop": {"func New() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc run() {\n\tfor range 3 {\n\t\t_ = errors.New()\n\t}\n\tsrv := New()\n" +
			"\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return srv }, nil))\n}\n", false},
		"one, when it is first asked for": {"func (a *app) server() *mcp.Server {\n\ta.once.Do(func() {\n\t\tsrv := mcp.NewServer(nil, nil)\n\t\ta.srv = srv\n\t})\n\treturn a.srv\n}\n" +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.server() }, nil)) }\n", true},
		"one":             {once + "\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return srv }, nil))\n}\n", false},
		"one, in a field": {once + "\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.srv }, nil))\n}\n", false},
		"one, by a method": {once + "\tuse(mcp.NewStreamableHTTPHandler(a.get, nil))\n}\nfunc (a *app) get(r *http.Request) *mcp.Server {\n\tif r.Host == \"\" {\n\t\treturn nil\n\t}\n" +
			"\treturn a.srv\n}\n", true},
	} {
		dir, found := writeModule(t, map[string]string{"main.go": "package app\n\nimport (\n\t\"net/http\"\n\n\t" + sdk + "\n)\n\n" + c.text})
		edits := added.Edits(dir, found)
		var served []Edit
		isOverlaid := false
		for _, e := range edits {
			isOverlaid = isOverlaid || strings.Contains(e.Insert+e.Note, "overlay.NewHandler")
			if strings.Contains(e.Insert, "transport.New") {
				served = append(served, e)
			}
		}
		if isOverlaid != c.overlaid || (len(served) == 1) == c.overlaid {
			t.Errorf("%s: the edits are %+v", name, edits)
			continue
		}
	}
}

// A server is told by its shape, and the description names it.
func TestDescribe(t *testing.T) {
	const sdk, mcpGo = "import \"github.com/modelcontextprotocol/go-sdk/mcp\"\n", "import \"github.com/mark3labs/mcp-go/server\"\n"
	for text, want := range map[string][2]string{
		sdk + "var s = mcp.NewServer(nil, nil)\n":                                                     {string(OneServer), "NewServer at main.go:3"},
		sdk + "var h = mcp.NewStreamableHTTPHandler(choose, nil)\n":                                   {string(PerRequest), "NewStreamableHTTPHandler at main.go:3"},
		mcpGo + "var h = server.NewStreamableHTTPServer(nil)\n":                                       {string(MCPGo), "NewStreamableHTTPServer at main.go:3"},
		mcpGo + "var h = server.NewSSEServer(nil)\n":                                                  {string(Unknown), "NewSSEServer at main.go:3"},
		mcpGo + "func f(*server.MCPServer) {}\n":                                                      {string(Unknown), "server.MCPServer at main.go:3"},
		sdk + "func f(*mcp.Server) {}\n":                                                              {string(Unknown), "mcp.Server at main.go:3"},
		"import \"net/http\"\nfunc f() { http.ListenAndServe(\"\", nil) }\n":                          {string(PlainHTTP), "main.go:3"},
		"import \"net/http\"\nvar s = &http.Server{Addr: \"\", Handler: nil}\n":                       {string(PlainHTTP), "main.go:3"},
		"import \"net/http\"\nfunc f(s *http.Server) { s.Handler = nil }\n":                           {string(PlainHTTP), "main.go:3"},
		"import \"net/http\"\ntype Server struct{ Handler any }\nvar s = Server{Handler: http.Get}\n": {string(NoServer), ""},
		sdk + "var c = mcp.NewClient(nil, nil)\n":                                                     {string(NoServer), ""},
	} {
		_, found := writeModule(t, map[string]string{"main.go": "package main\n" + text})
		if shape, says := found.Describe(); string(shape) != want[0] || !strings.Contains(says, want[1]) {
			t.Errorf("%s: %s, %s", text, shape, says)
		}
	}
	for line, want := range map[string]bool{"github.com/metoro-io/mcp-golang v1.0.0": true, "github.com/a/go-mcp/v2 v2.0.0": true, "github.com/a/gomcp v1.0.0": true,
		"github.com/a/mcp v1.0.0": true, "github.com/mark3labs/mcp-go v1.0.0": false, "github.com/modelcontextprotocol/go-sdk v1.0.0": false, RuntimePath + " v1.0.0": false,
		"github.com/a/mcpx v1.0.0": false, "github.com/a/mcp v1.0.0 // indirect": false} {
		m, err := ParseModule("go.mod", []byte("module x\n\nrequire "+line+"\n"))
		if err != nil || (m.OtherSDK != "") != want {
			t.Errorf("%s: %+v, %v", line, m, err)
		}
	}
}
