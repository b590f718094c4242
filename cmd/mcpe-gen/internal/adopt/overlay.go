package adopt

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// isPerRequest reports whether a request creates or chooses the server of a place, or its handler.
func isPerRequest(h Place) bool {
	return h.Kind != Run && h.file.isWithin(h.call, isRequestHandler) || h.Kind != NewServer && serverOf(&h) == ""
}

// note adds a note about a place.
func (p *plan) note(at *Place, text string) {
	p.edits = append(p.edits, Edit{File: at.Path, Line: at.Line, Imports: []string{}, Note: text, Context: at.file.lines(at.Line, at.Line)})
}

// newServer returns the line that creates an mcp.Server for an event server.
func (p *plan) newServer(sc *scope, n *nameSet) []string {
	n.srv = sc.free("srv", "eventsServer")
	name, version := cmp.Or(p.found.name, strconv.Quote(p.Name)), cmp.Or(p.found.version, `"v0.1.0"`)
	return []string{fmt.Sprintf("%s := %s.NewServer(&%[2]s.Implementation{Name: %s, Version: %s}, nil)", n.srv, sc.use(sdkPath), name, version)}
}

// overlaid returns the expression for a handler that serves events next to another one. onlyTools reports whether that
// one authenticates the callers of tools only.
func (n nameSet) overlaid(sc *scope, next string, onlyTools bool) string {
	overlay, options := sc.use(overlayPath), ""
	if onlyTools {
		options = "Ask: " + overlay + ".AskToolsList"
	}
	return n.authenticated(fmt.Sprintf("%s.NewHandler(%s, %s, %s.Options{%s})", overlay, n.es, next, overlay, options))
}

// serve adds an event server with its mcp.Server before the statement with a handler, and replaces the handler. more
// returns what follows the lines, if it is not nil.
func (p *plan) serve(f *file, handler ast.Expr, more func(sc *scope, n nameSet) []string, instead func(sc *scope, n nameSet) string) {
	s := siteOf(f, handler)
	s.stmt, s.server = nil, ""
	n := p.addLines(s, more)
	sc := p.scopeOf(f, handler)
	text := instead(sc, n)
	if text == "" {
		return
	}
	e := f.replacement(handler, text)
	e.Imports = sc.imports
	p.edits = append(p.edits, e)
}

// addFunction adds a function that creates an event server and returns a handler.
func (p *plan) addFunction(name, params, note string, handler func(sc *scope, n nameSet) string) {
	sc := p.newScope(p.dir, &file{syntax: &ast.File{Name: ast.NewIdent("_")}}, nil)
	n := nameSet{err: "err"}
	sc.taken["next"] = true
	web := sc.use(httpPath)
	lines := append(p.newServer(sc, &n), p.linesAfter(sc, &n, []string{"return nil, err"}, true)...)
	lines = append(lines, "return "+handler(sc, n)+", nil")
	p.edits = append(p.edits, Edit{Insert: fmt.Sprintf("func %s(%s) (%s.Handler, error) {\n\t%s\n}\n", name, params, web, strings.Join(lines, "\n\t")),
		Imports: sc.imports, Note: note})
}

// addOverlay adds a function that serves events next to any handler.
func (p *plan) addOverlay() {
	p.addFunction("withEvents", "next http.Handler", "Call this function once, when the program starts, with the handler that serves MCP, and serve what it returns instead.",
		func(sc *scope, n nameSet) string { return n.overlaid(sc, "next", false) })
}

// addHandler adds an MCP server with events to the HTTP server of a program without MCP.
func (p *plan) addHandler() {
	if len(p.found.mounts) != 1 {
		p.addFunction("newEventHandler", "", "No call of mcp.NewServer was found. This function creates a server with events. Call it when the program starts, "+
			"and mount what it returns: mux.Handle(\"/mcp\", handler).", func(sc *scope, n nameSet) string { return n.handler(sc.use(transportPath), "") })
		return
	}
	m := p.found.mounts[0]
	mux := muxIn(m.handler)
	isNew := mux == ""
	p.serve(m.file, m.handler, func(sc *scope, n nameSet) (lines []string) {
		if isNew {
			mux = sc.free("mux", "eventMux")
			lines = []string{fmt.Sprintf("%s := %s.NewServeMux()", mux, sc.use(httpPath)), fmt.Sprintf("%s.Handle(\"/\", %s)", mux, m.source(sc))}
		}
		return append(lines, fmt.Sprintf("%s.Handle(\"/mcp\", %s)", mux, n.handler(sc.use(transportPath), "")))
	}, func(*scope, nameSet) string {
		if isNew {
			return mux
		}
		return ""
	})
}

// source returns the expression for the handler.
func (m mount) source(sc *scope) string {
	if isNamed(m.handler, "nil") {
		return sc.use(httpPath) + ".DefaultServeMux"
	}
	return m.file.source(m.handler)
}

// muxIn returns the name of the variable in an expression that is set to a new mux of net/http, chi or gorilla, or "".
func muxIn(e ast.Expr) (mux string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Obj != nil {
			declaration, _ := id.Obj.Decl.(ast.Node)
			if _, values := assignment(declaration); len(values) == 1 {
				if call, ok := values[0].(*ast.CallExpr); ok && slices.Contains([]string{"NewServeMux", "NewRouter", "NewMux"}, calledName(call)) {
					mux = id.Name
				}
			}
		}
		return mux == ""
	})
	return mux
}
