package adopt

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
)

// addMCPGo adds an event server next to a handler of mcp-go: where it is mounted, or else on the mux of the HTTP server
// that it starts. Another transport gets a note.
func (p *plan) addMCPGo(h *Place) {
	if h.Kind != mcpGoHTTP {
		p.note(h, "Events cannot be added to mcp-go's "+string(h.Kind)+", whose clients get none. On stdio, a server of the official SDK can send them.")
		return
	}
	f := h.file
	onlyTools := bytes.Contains(f.text, []byte("WithHTTPContextFunc"))
	if onlyTools {
		p.note(h, "If a WithHTTPContextFunc reads the caller's token, only tools check it: AskToolsList makes the events ask for the list of tools.\n"+
			"If the list is for everybody, check callers in front of the handler. server.Options.Principal says who the caller is.")
	}
	uses := p.found.handlerUses(h)
	for _, use := range uses {
		p.serve(f, use, nil, func(sc *scope, n nameSet) string { return n.overlaid(sc, f.source(use), onlyTools) })
	}
	if len(uses) > 0 {
		return
	}
	handler := ""
	p.serve(f, h.call, func(sc *scope, n nameSet) []string {
		handler = sc.free("handler", "mcpHandler")
		mux, web := sc.free("mux", "eventMux"), sc.use(httpPath)
		last := h.call.Args[len(h.call.Args)-1]
		made := string(f.text[f.offset(h.call.Pos()):f.offset(last.Pos())])
		option := fmt.Sprintf("%s.WithStreamableHTTPServer(&%s.Server{Handler: %s, ReadHeaderTimeout: 10 * %s.Second})", f.mcpGo, web, mux, sc.use("time"))
		if h.call.Ellipsis.IsValid() {
			made += fmt.Sprintf("append(%s, %s)...)", f.source(last), option)
		} else {
			made += fmt.Sprintf("%s, %s)", f.source(last), option)
		}
		return []string{fmt.Sprintf("%s := %s.NewServeMux()", mux, web), handler + " := " + made,
			fmt.Sprintf("%s.Handle(%s, %s)", mux, endpoint(h), n.overlaid(sc, handler, onlyTools))}
	}, func(*scope, nameSet) string { return handler })
}

// endpoint returns the expression for the path of a handler of mcp-go.
func endpoint(h *Place) string {
	path := `"/mcp"`
	ast.Inspect(declarationOf(h.file, h.call), func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && calledName(call) == "WithEndpointPath" && len(call.Args) == 1 {
			path = h.file.source(call.Args[0])
		}
		return true
	})
	return path
}

// handlerUses returns the expressions that use a handler of mcp-go as an http.Handler: its variable, or the call
// itself.
func (found *Found) handlerUses(h *Place) (uses []ast.Expr) {
	variable := assignedVariable(h.file.syntax, h.call)
	add := func(e ast.Expr) {
		id, ok := e.(*ast.Ident)
		if e == ast.Expr(h.call) || ok && variable != nil && id.Obj != nil && id.Obj == variable.Obj {
			uses = append(uses, e)
		}
	}
	ast.Inspect(declarationOf(h.file, h.call), func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && servedHandler[calledName(call)] == 0 && found.takesHandler(call) {
			for _, a := range call.Args {
				add(a)
			}
		}
		return true
	})
	for _, m := range found.mounts {
		add(m.handler)
	}
	return uses
}

// takesHandler reports whether a call may take any http.Handler. It does if its function is not the module's.
func (found *Found) takesHandler(call *ast.CallExpr) bool {
	isOther := true
	for _, f := range found.files {
		for _, d := range f.syntax.Decls {
			if fun, ok := d.(*ast.FuncDecl); ok && fun.Name.Name == calledName(call) {
				isOther = strings.Contains(f.source(fun.Type.Params), ".Handler")
			}
		}
	}
	return isOther
}
