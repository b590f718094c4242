package adopt

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var added = Wiring{Import: "example.com/x/internal/notes", Package: "notes", Events: []string{"NoteAdded"}}

// module writes Go files into a directory and finds the places in them.
func module(t *testing.T, files map[string]string) (string, *Found) {
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
		"bare": {in: "module x\n", want: []string{"go 1.26.0\n", "tool " + toolPath, "require " + RuntimePath + " v0.2.0\n"}},
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
		"tool": {in: "module x\n\ntool " + toolPath + "\n", want: []string{"tool " + toolPath + "\n"}},
		"crlf": {in: "module x\r\n\r\ngo 1.26.0\r\n", want: []string{"go 1.26.0\r\n", "v0.2.0\r\n"}},
	} {
		if name == "replaced" {
			c.in = strings.Replace(c.in, "../a b", "../a", 1)
		}
		m, err := ParseModule("go.mod", []byte(c.in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.Replace, r.Modules = c.replace, c.modules
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
	_, found := module(t, map[string]string{
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
		got = append(got, p.Path+" "+string(p.Kind)+" "+p.Text)
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

// What --write does to functions of other shapes than main's.
func TestWrite(t *testing.T) {
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
			text: program("main", "func main() {\n\tserver := mcp.NewServer(nil, nil)\n\tnotes, es, transport := 1, 2, 3\n"+
				"\thandle(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts))\n"+
				"\terr := context.Cause(nil)\n\t_, _, _, _ = notes, es, transport, err\n}\n"),
			want: []string{"eventServer, eventsErr := eventserver.New(server, eventserver.Options{})",
				"if eventsErr != nil {\n\t\tlog.Fatal(eventsErr)\n", "noteAdded, eventsErr := notesevents.RegisterNoteAdded(",
				"notesevents \"example.com/x/internal/notes\"\n", "\t\"log\"\n",
				"eventtransport.NewHandler(eventServer, eventtransport.HandlerOptions{Streamable: opts})"},
			lacks: []string{"net/http", "NewStreamableHTTPHandler"},
		},
		"the emitter's name is taken": {
			text:  program("main", "func main() {\n\ts := mcp.NewServer(nil, nil)\n\tnoteAdded := 1\n\ts.Run(nil, noteAdded)\n}\n"),
			want:  []string{"noteAddedEmitter, err := notes.RegisterNoteAdded(", "_ = noteAddedEmitter // noteAddedEmitter.Emit tells"},
			lacks: []string{"noteAdded, err"},
		},
		"imports, of which the first goes": {
			text: "package main\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n)\n\nfunc main() {\n" +
				"\ts := mcp.NewServer(nil, nil)\n\tuse(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))\n}\n",
			want:  []string{"import (\n\t\"log\"\n\n\t\"example.com/x/internal/notes\"\n"},
			lacks: []string{"net/http"},
		},
		"a single import": {
			text: "package main\n\nimport \"github.com/modelcontextprotocol/go-sdk/mcp\"\n\nfunc main() {\n" +
				"\ts := mcp.NewServer(nil, nil)\n\ts.Run(nil, nil)\n}\n",
			want: []string{"go-sdk/mcp\"\n\nimport (\n\t\"log\"\n\n\t\"example.com/x/internal/notes\"\n"},
		},
	} {
		dir, found := module(t, map[string]string{"main.go": c.text})
		edit, err := Write(dir, found, added)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(edit.New), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, edit.New)
			}
		}
		for _, lacks := range c.lacks {
			if strings.Contains(string(edit.New), lacks) {
				t.Errorf("%s: %q is in\n%s", name, lacks, edit.New)
			}
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	const made, handler = "\ts := mcp.NewServer(nil, nil)\n", "mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)"
	for want, text := range map[string]string{
		"main.go:11: the server is not in a variable":                      program("main", "func make() *mcp.Server {\n\treturn mcp.NewServer(nil, nil)\n}\n"),
		"main.go:11: the function cannot return":                           program("app", "func f() {\n"+made+"\ts.Run(nil, nil)\n}\n"),
		"main.go:11: what serves s was not found":                          program("main", "func main() {\n"+made+"\t_ = s\n}\n"),
		"main.go:15: the server is made and served in different functions": program("main", "func main() {\n"+made+"\t_ = s\n}\n\nfunc g() { use("+handler+") }\n"),
		"a function chooses the server": program("main", "func main() {\n"+made+
			"\tuse(mcp.NewStreamableHTTPHandler(choose, nil))\n}\n"),
		"may want the SDK's type":                  program("main", "func main() {\n"+made+"\tvar h *mcp.StreamableHTTPHandler = "+handler+"\n\tuse(h)\n}\n"),
		"main.go:12: a loop makes several servers": program("main", "func main() {\n\tfor _, o := range owners {\n\t"+made+"\tuse(o, "+handler+")\n\t}\n}\n"),
		"other code follows":                       program("main", "func main() {\n\ts := mcp.NewServer(nil, nil); _ = s\n\ts.Run(nil, nil)\n}\n"),
		"main.go does not parse":                   program("main", "func main() {\n"+made+"\ts.Run(nil, nil)\n"),
	} {
		dir, found := module(t, map[string]string{"main.go": text})
		if _, err := Write(dir, found, added); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// E2: a result is the SDK's server under any name of the import and by any alias of the module; aliases in a circle
// end.
func TestResolved(t *testing.T) {
	const sdk = "\"github.com/modelcontextprotocol/go-sdk/mcp\""
	_, found := module(t, map[string]string{
		"a/a.go": "package a\nimport m " + sdk + "\nfunc a() *m.Server\nfunc b() *mcp.Server\nfunc c() m.Server\nfunc d() *B\nfunc e() *b.Server\nfunc f() *b.Tool\ntype A = B\ntype B = A\n",
		"b/b.go": "package b\nimport . " + sdk + "\nfunc g() *Server\nfunc h() *Tool\nfunc i() (*Client, *Server)\ntype Server2 = Server\nfunc j() *Server2\n",
		"c/c.go": "package b\nimport " + sdk + "\ntype Server = mcp.Server\n",
	})
	got := ""
	for _, f := range found.files {
		for _, d := range f.syntax.Decls {
			if fun, ok := d.(*ast.FuncDecl); ok && found.returnsServer(f, fun) {
				got += fun.Name.Name
			}
		}
	}
	if got != "aegij" {
		t.Errorf("servers are returned by %q", got)
	}
}

// E2: a server that is made for each request gets no lines, whatever the form is; one that a function only names does.
func TestFactories(t *testing.T) {
	const sdk = "\"github.com/modelcontextprotocol/go-sdk/mcp\""
	const makes = "func (a *app) serverFor(owner string) *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\t_ = owner\n\treturn srv\n}\n"
	const once = "func (a *app) run() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n"
	for name, c := range map[string]struct {
		text    string
		factory bool
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
		"one, that a handler for each request takes from a field":   {"func (a *app) start() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n}\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tsrv := a.srv\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", false},
		"one, that a handler for each request takes from a method":  {"func (a *app) start() {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.srv = srv\n}\nfunc (a *app) server() *mcp.Server { return a.srv }\nfunc (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n\tsrv := a.server()\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n}\n", false},
		"one, that a handler for each request takes from around it": {"func newServer() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc run() {\n\tsrv := newServer()\n\thttp.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) {\n\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n})\n}\n", false},
		"in a literal that answers": {"func run() {\n\thttp.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) {\n\t\tsrv := mcp.NewServer(nil, nil)\n" +
			"\t\tmcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil).ServeHTTP(w, r)\n\t})\n}\n", true},
		"an alias": {"type Server = mcp.Server\ntype owned = *Server\n" + strings.Replace(makes, "*mcp.Server", "owned", 1) +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) owned { return a.all[r.Host] }, nil)) }\n", true},
		"another Server": {"type Server = mcp.Server\nfunc (a *app) listen() *http.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.all[\"\"] = srv\n\treturn nil\n}\n" +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *Server { return a.all[r.Host] }, nil)) }\n", false},
		"a loop": {"func (a *app) run() {\n\tfor _, owner := range a.owners {\n\t\tsrv := mcp.NewServer(nil, nil)\n\t\ta.all[owner] = srv\n\t}\n" +
			"\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.all[r.Host] }, nil))\n}\n", false},
		"a function that a loop calls": {"func (a *app) add(owner string) {\n\tsrv := mcp.NewServer(nil, nil)\n\ta.all[owner] = srv\n}\nfunc (a *app) run() {\n\tfor _, owner := range a.owners {\n" +
			"\t\tgo a.add(owner)\n\t}\n\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.all[r.Host] }, nil))\n}\n", false},
		"one, beside a loop": {"func New() *mcp.Server {\n\tsrv := mcp.NewServer(nil, nil)\n\treturn srv\n}\nfunc run() {\n\tfor range 3 {\n\t\t_ = errors.New()\n\t}\n\tsrv := New()\n" +
			"\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return srv }, nil))\n}\n", false},
		"one, when it is first asked for": {"func (a *app) server() *mcp.Server {\n\ta.once.Do(func() {\n\t\tsrv := mcp.NewServer(nil, nil)\n\t\ta.srv = srv\n\t})\n\treturn a.srv\n}\n" +
			"func (a *app) run() { use(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.server() }, nil)) }\n", false},
		"one":             {once + "\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return srv }, nil))\n}\n", false},
		"one, in a field": {once + "\tuse(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return a.srv }, nil))\n}\n", false},
		"one, by a method": {once + "\tuse(mcp.NewStreamableHTTPHandler(a.get, nil))\n}\nfunc (a *app) get(r *http.Request) *mcp.Server {\n\tif r.Host == \"\" {\n\t\treturn nil\n\t}\n" +
			"\treturn a.srv\n}\n", false},
	} {
		dir, found := module(t, map[string]string{"main.go": "package app\n\nimport (\n\t\"net/http\"\n\n\t" + sdk + "\n)\n\n" + c.text})
		steps, err := added.Steps(dir, found)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, s := range steps {
			if s.Place.Kind != NewServer {
				continue
			}
			if (len(s.Lines) == 0) != c.factory || strings.Contains(s.Note, "for each request") != c.factory {
				t.Errorf("%s: the lines are %q, %q", name, s.Lines, s.Note)
			}
		}
		if served := steps[len(steps)-1]; served.Place.Kind == NewServer || len(served.Lines) != 1 || !strings.Contains(served.Lines[0], "Handler(") ||
			strings.Contains(served.Note, "refused callers") != (name == "one, by a method") {
			t.Errorf("%s: what serves it is %+v", name, served)
		}
		if answering := strings.Contains(c.text, ".ServeHTTP(w, r)"); strings.Contains(steps[len(steps)-1].Note, "Make this handler once") != answering {
			t.Errorf("%s: the note is %q", name, steps[len(steps)-1].Note)
		}
		// E2: where a choice is lost that is none of a server for each request, the notes say so.
		looped := name == "a loop" || name == "a function that a loop calls"
		if chosen := looped || name == "another Server" || name == "one, when it is first asked for"; strings.Contains(steps[len(steps)-1].Note, "could choose a server for each request") != chosen ||
			strings.Contains(steps[0].Note, "A loop makes several servers") != looped {
			t.Errorf("%s: the notes are %q and %q", name, steps[0].Note, steps[len(steps)-1].Note)
		}
		if _, err := Write(dir, found, added); c.factory && (err == nil || !strings.Contains(err.Error(), "made for each request")) {
			t.Errorf("%s: --write: %v", name, err)
		}
	}
}
