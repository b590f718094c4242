package inbound_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var root, _ = filepath.Abs("../..")

// tmplHandler is a handler in what init writes.
var tmplHandler = regexp.MustCompile(`func ?(?:\(\w+ \*?(\w+)\) )?(\w*)\(\w+ http\.ResponseWriter, \w+ \*http\.Request\)`)

// found are the handlers of the module: what takes a ResponseWriter and a Request, by directory, receiver and name; a
// function literal has the name of the function that it is in.
func found(t *testing.T) map[string]bool {
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "golden" || d.Name() == "node_modules" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		switch {
		case strings.HasSuffix(name, ".go.tmpl") && !strings.HasSuffix(name, "_test.go.tmpl"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range tmplHandler.FindAllStringSubmatch(string(text), -1) {
				all[dir+" "+cmp.Or(strings.TrimPrefix(m[1]+"."+m[2], "."), "literal")] = true
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				inside(decl, func(name string) { all[dir+" "+name] = true })
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inside tells of the handlers in a declaration.
func inside(decl ast.Decl, tell func(name string)) {
	name := "var"
	if f, ok := decl.(*ast.FuncDecl); ok {
		name = f.Name.Name
		if f.Recv != nil {
			recv := f.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if id, ok := recv.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		if isHandler(f.Type) {
			tell(name)
		}
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && isHandler(lit.Type) {
			tell(name)
		}
		return true
	})
}

// isHandler reports whether a function has the shape of an http.HandlerFunc.
func isHandler(f *ast.FuncType) bool {
	var types []string
	for _, p := range f.Params.List {
		for range max(len(p.Names), 1) {
			types = append(types, typeText(p.Type))
		}
	}
	return f.Results == nil && len(types) == 2 && types[0] == "http.ResponseWriter" && types[1] == "*http.Request"
}

func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + typeText(e.X)
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// How a handler keeps the rules.
const (
	// self: it bounds bodies itself from the first line on, and is among the subjects of the tests below.
	self = "self"
	// program: the http.Server of its program has a ReadTimeout; TestServersHaveDeadlines sees to that.
	program = "program"
	// tool: it serves measurements and tests of ours, on loopback.
	tool = "tool"
)

// handlers are all of the module, of scaffolds and of examples. Others are "of" one that they are a part of. Who adds
// one says here how it keeps the rules: nothing is read or looked up before the caller is known, no text of an upstream
// reaches a caller, every body has a size and a deadline.
var handlers = map[string]string{
	"runtime/admin handler.ServeHTTP":                         self,
	"runtime/admin handler.routes":                            "of handler.ServeHTTP: 404, 405, and what asks Authenticate",
	"runtime/admin handler.static":                            "of handler.ServeHTTP: nobody's files",
	"runtime/ingress Handler.ServeHTTP":                       self,
	"runtime/webhook Receiver.ServeHTTP":                      self,
	"runtime/webhook Receiver.WellKnown":                      self,
	"runtime/webhook Identity.ServeHTTP":                      self,
	"runtime/transport NewHandler":                            "of handler.ServeHTTP: the answer of a server that only emits",
	"runtime/transport handler.ServeHTTP":                     self,
	"runtime/transport handler.serveGET":                      "of handler.ServeHTTP",
	"runtime/transport handler.serve":                         "of handler.ServeHTTP",
	"runtime/transport handler.serveListen":                   "of handler.ServeHTTP",
	"runtime/overlay handler.ServeHTTP":                       self,
	"runtime/overlay handler.servePOST":                       "of handler.ServeHTTP",
	"runtime/overlay handler.serveGET":                        "of handler.ServeHTTP",
	"runtime/overlay handler.serveDELETE":                     "of handler.ServeHTTP",
	"runtime/overlay handler.listTools":                       "of handler.servePOST, with a request of the handler",
	"runtime/transport AllowOrigins":                          self,
	"runtime/oauth Resource.Register":                         self,
	"runtime/oauth Resource.RequireToken":                     self,
	"runtime/transport Challenge":                             "passes every request on",
	"runtime/transport SameOrigin":                            self,
	"runtime/transport answerPreflight":                       "of AllowOrigins, and of handler.ServeHTTP",
	"runtime/transport probe.ServeHTTP":                       self,
	"runtime/transport sseHandler.ServeHTTP":                  self,
	"runtime/transport sseHandler.serveStream":                "of sseHandler.ServeHTTP",
	"runtime/transport sseHandler.post":                       "of sseHandler.ServeHTTP",
	"runtime/client webhookState.setHandler":                  "of webhook.Receiver, and of its WellKnown",
	"cmd/internal/serve trial.checkHost":                      program,
	"cmd/internal/serve trial.emit":                           program,
	"cmd/internal/serve trial.injectFaults":                   program,
	"cmd/internal/serve trial.authenticate":                   program,
	"cmd/internal/conform receiver.ServeHTTP":                 program,
	"cmd/internal/conform/clients stage.ServeHTTP":            program,
	"cmd/internal/conform/clients stage.defaultReply":         "of stage.ServeHTTP, as are those below",
	"cmd/internal/conform/clients stage.channel":              "of stage.ServeHTTP",
	"cmd/internal/conform/clients stage.subscribe":            "of stage.ServeHTTP",
	"cmd/internal/conform/clients statusReply":                "of stage.ServeHTTP",
	"cmd/internal/conform/clients message":                    "of stage.ServeHTTP",
	"cmd/internal/conform/clients breakReply":                 "of stage.ServeHTTP",
	"cmd/internal/conform/clients holdSecond":                 "of stage.ServeHTTP",
	"cmd/internal/conform/clients hostileScene":               "of stage.ServeHTTP",
	"cmd/internal/clitest StartPeer":                          tool,
	"cmd/internal/clitest Sink":                               tool,
	"examples/conformance authentication":                     program,
	"examples/conformance fixture.ServeHTTP":                  program,
	"examples/demo endpoint.ServeHTTP":                        program,
	"examples/demo stage.follow":                              program,
	"examples/demo stage.handler":                             program,
	"examples/github receiver.ServeHTTP":                      program,
	"examples/metrics run":                                    program,
	"examples/tickets desk.ServeHTTP":                         program,
	"examples/tickets run":                                    program,
	"runtime/store/jetstream/example run":                     program,
	"runtime/store/jetstream/example desk.ServeHTTP":          program,
	"examples/websocket newHandler":                           program,
	"templates/gateway literal":                               program,
	"templates/noteshttp noteServer.postNote":                 program,
	"docs/proposals/stateless byHand":                         tool,
	"runtime/eventstest Webhooks.check":                       tool,
	"runtime/internal/testkit/campaign desk.emit":             tool,
	"runtime/internal/testkit/campaign desk.transaction":      tool,
	"runtime/internal/testkit/campaign reception.ServeHTTP":   tool,
	"internal/hostileserver Server.ServeHTTP":                 tool,
	"runtime/internal/testkit/clustertest receiver.ServeHTTP": tool,
	"cmd/internal/conform/wrongserver Server.ServeHTTP":       tool,
	"runtime/internal/testkit/campaign replicaOptions.serve":  tool,
	"bench killHalf":                                          tool,
	"bench onGet":                                             tool,
	"bench serveClock":                                        tool,
	"bench serveLimit":                                        tool,
	"bench serveReceiver":                                     tool,
	"bench serveTenants":                                      tool,
}

// A handler that is not in the table fails, and so does an entry without one.
func TestHandlersAreInTheTable(t *testing.T) {
	all := found(t)
	for name := range all {
		if handlers[name] == "" {
			t.Errorf("%s is not in the table handlers of this file", name)
		}
	}
	for name := range handlers {
		if !all[name] {
			t.Errorf("the table handlers of this file has %s, which is not a handler", name)
		}
	}
}

// serverLiteral is a server in what init writes.
var serverLiteral = regexp.MustCompile(`http\.Server\{[^}]*\}`)

// Every server of a program gives bodies a time: it is there before any handler or middleware refuses.
func TestServersHaveDeadlines(t *testing.T) {
	without := map[string]string{
		"runtime/client/webhookoptions.go": "its handlers are receivers, which have deadlines themselves",
	}
	n := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		goFile := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		template := strings.HasSuffix(name, ".go.tmpl") && !strings.HasSuffix(name, "_test.go.tmpl")
		if !goFile && !template {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for _, literal := range serverLiteral.FindAllString(string(text), -1) {
			n++
			if without[filepath.ToSlash(rel)] == "" && !strings.Contains(literal, " ReadTimeout:") {
				t.Errorf("%s: %s has no ReadTimeout", rel, literal)
			}
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d servers, %v", n, err)
	}
}
