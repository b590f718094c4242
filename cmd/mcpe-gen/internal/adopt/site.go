package adopt

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// A site is the statement that the lines for a server follow.
type site struct {
	file *file
	// call creates the server. server is the variable or field that holds it.
	call   *ast.CallExpr
	server string
	// function contains the call, and declaration is its declaration, or nil if the function is a literal.
	function    *ast.FuncType
	declaration *ast.FuncDecl
	// scope is the innermost block or clause with the call, list its statements, and stmt the last statement before the
	// lines. If the call also returns an error, stmt checks it. stmt is nil if no statement sets the server.
	scope ast.Node
	list  []ast.Stmt
	stmt  ast.Stmt
	// names are the variables of the lines. notes say what the user has to know about them.
	names nameSet
	notes []string
}

// siteOf returns the site of a call that creates a server.
func siteOf(f *file, call *ast.CallExpr) *site {
	s := &site{file: f, call: call}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if !contains(n, call) {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.function, s.declaration = n.Type, n
		case *ast.FuncLit:
			s.function, s.declaration = n.Type, nil
		case *ast.BlockStmt:
			s.scope, s.list = n, n.List
		case *ast.CaseClause:
			s.scope, s.list = n, n.Body
		case *ast.CommClause:
			s.scope, s.list = n, n.Body
		}
		return true
	})
	for i, st := range s.list {
		names, values := assignment(st)
		if len(values) != 1 || values[0] != ast.Expr(call) || isNamed(names[0], "_") {
			continue
		}
		s.server = f.source(names[0])
		if i+1 < len(s.list) && len(names) > 1 {
			if check, ok := s.list[i+1].(*ast.IfStmt); ok {
				st = check
			}
		}
		end := f.offset(st.End())
		if rest, _, _ := bytes.Cut(f.text[end:], []byte("\n")); len(bytes.TrimSpace(rest)) == 0 || bytes.HasPrefix(bytes.TrimSpace(rest), []byte("//")) {
			s.stmt = st
		}
	}
	return s
}

// contains reports whether a node contains another one of the same file.
func contains(outer, inner ast.Node) bool {
	return outer != nil && outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}

// assignment returns the operands of an assignment or of a declaration of variables.
func assignment(n ast.Node) (names, values []ast.Expr) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs, n.Rhs
	case *ast.DeclStmt:
		if d, ok := n.Decl.(*ast.GenDecl); ok && len(d.Specs) == 1 {
			return assignment(d.Specs[0])
		}
	case *ast.ValueSpec:
		for _, name := range n.Names {
			names = append(names, name)
		}
		return names, n.Values
	}
	return nil, nil
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// covers reports whether the variables of the site's lines are visible at a place.
func (s *site) covers(p *Place) bool {
	return s.stmt != nil && s.file == p.file && s.stmt.End() <= p.call.Pos() && contains(s.scope, p.call)
}

// sitesOf returns the sites for the server that a call creates: the call, or the calls of the constructor that contains
// it. There the error of server.New is handled and the server is served, and no signature changes.
func (found *Found) sitesOf(f *file, call *ast.CallExpr, depth int) []*site {
	here := siteOf(f, call)
	fun := here.declaration
	var all []*site
	// Circular calls compile, but must not cause an endless loop.
	if fun != nil && depth < 8 && found.isConstructor(f, fun) {
		for _, c := range found.callers(f, fun) {
			all = append(all, found.sitesOf(c.file, c.call, depth+1)...)
		}
	}
	if len(all) == 0 {
		return []*site{here}
	}
	return all
}

// isConstructor reports whether a function returns a server that others serve. A method needs a unique name, because the
// calls of its namesakes look the same.
func (found *Found) isConstructor(f *file, fun *ast.FuncDecl) bool {
	return fun.Type.Results != nil && found.sdkType(f, fun.Type.Results.List[0].Type, 0) == "*Server" &&
		found.isHandedOut(fun) && (fun.Recv == nil || len(found.functionsNamed(fun.Name.Name)) == 1)
}

// failure returns the lines that end the function of the site with an error. If the function cannot return one, it adds
// a note about the signature to change.
func (s *site) failure(sc *scope, err string) []string {
	isMain := s.file.syntax.Name.Name == "main"
	if isMain && s.declaration != nil && s.declaration.Name.Name == "main" {
		return sc.exit(err)
	}
	var results []string
	last := ""
	if s.function != nil && s.function.Results != nil {
		for _, field := range s.function.Results.List {
			last = s.file.source(field.Type)
			zero := "*new(" + last + ")"
			switch field.Type.(type) {
			case *ast.StarExpr, *ast.MapType, *ast.ChanType, *ast.FuncType, *ast.InterfaceType:
				zero = "nil"
			}
			for range max(1, len(field.Names)) {
				results = append(results, zero)
			}
		}
	}
	switch {
	case last == "error":
		results = results[:len(results)-1]
	case isMain:
		return sc.exit(err)
	case s.function != nil:
		s.notes = append(s.notes, s.signature())
	}
	return []string{"return " + strings.Join(append(results, err), ", ")}
}

// signature says how the signature of the site's function changes so that it can return an error.
func (s *site) signature() string {
	of, results := s.function, "error"
	if of.Results != nil {
		inner := s.file.source(of.Results)
		if of.Results.Opening.IsValid() {
			inner = inner[1 : len(inner)-1]
		}
		if len(of.Results.List[0].Names) > 0 {
			results = "err error"
		}
		results = "(" + inner + ", " + results + ")"
	}
	head := s.file.text[s.file.offset(of.Pos()):s.file.offset(of.Params.End())]
	return "The lines return an error: change " + s.file.source(of) + " to " + string(head) + " " + results + ", and its callers."
}

// isRedeclared reports whether a later statement of the site declares only err, which would no longer compile.
func (s *site) isRedeclared() bool {
	isErr := func(e ast.Expr) bool { return isNamed(e, "err") }
	isOther := func(e ast.Expr) bool { return !isErr(e) && !isNamed(e, "_") }
	return s.stmt != nil && slices.ContainsFunc(s.list, func(st ast.Stmt) bool {
		names, _ := assignment(st)
		if assign, ok := st.(*ast.AssignStmt); ok && (assign.Tok != token.DEFINE || slices.ContainsFunc(names, isOther)) {
			return false
		}
		return s.stmt.End() <= st.Pos() && slices.ContainsFunc(names, isErr)
	})
}
