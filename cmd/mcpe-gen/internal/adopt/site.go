package adopt

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A site is the statement that the lines for a server follow, or that they precede.
type site struct {
	file *file
	// of is the value of the server, or the handler that the lines are for. server is the expression for the server, or ""
	// if the lines create one.
	of     ast.Expr
	server string
	// function contains the call, and declaration is its declaration, or nil if the function is a literal.
	function    *ast.FuncType
	declaration *ast.FuncDecl
	// scope is the innermost block or clause with the call, list its statements, and stmt the last statement before the
	// lines. If the call also returns an error, stmt checks it. stmt is nil if the lines precede inside, the statement
	// with the call. inside is nil if other code is on its first line.
	scope        ast.Node
	list         []ast.Stmt
	stmt, inside ast.Stmt
	// names are the variables of the lines. notes say what the user has to know about them.
	names nameSet
	notes []string
}

// siteOf returns the site of a call that creates a server, or of a handler.
func siteOf(f *file, of ast.Expr) *site {
	s := &site{file: f, of: of}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if !contains(n, of) {
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
		if line := f.line(st.Pos()); contains(st, of) && strings.TrimSpace(string(f.text[f.offset(f.fset.File(st.Pos()).LineStart(line)):f.offset(st.Pos())])) == "" {
			s.inside = st
		}
		names, values := assignment(st)
		if len(values) != 1 || values[0] != of || isNamed(names[0], "_") {
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

// before returns the edit that adds lines before the statement with the call, and before the comment above it.
func (s *site) before(lines []string) Edit {
	line := s.file.line(s.inside.Pos())
	margin := s.file.margin(line)
	for strings.HasPrefix(strings.TrimSpace(s.file.lines(line-1, line-1)), "//") {
		line--
	}
	return s.file.insertion(line, margin, lines)
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

// hasLinesOf reports whether the variables of another site's lines are visible at this one, for the same server.
func (s *site) hasLinesOf(o *site) bool {
	return s.file == o.file && (s.of == o.of || s.server == o.server && o.stmt == nil && o.inside != nil && contains(o.scope, s.of) && o.inside.Pos() < s.of.Pos())
}

// siteFor returns the site of the lines for the server of a place: the statement in the same function that sets the
// server, or the statement that serves it.
func siteFor(h *Place, server string) *site {
	var set *site
	ast.Inspect(declarationOf(h.file, h.call), func(n ast.Node) bool {
		if names, values := assignment(n); len(values) == 1 && types.ExprString(names[0]) == server {
			if s := siteOf(h.file, values[0]); s.covers(h) {
				set = s
			}
		}
		return true
	})
	if set == nil {
		set = siteOf(h.file, h.call)
		set.stmt = nil
	}
	set.server = server
	return set
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
		return sc.exit(err)
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
	return "An error ends the process here. To return it instead, change " + s.file.source(of) + " to " + string(head) + " " + results + ", and its callers."
}

// isRedeclared reports whether a statement after the lines declares only err, which would no longer compile.
func (s *site) isRedeclared() bool {
	isErr := func(e ast.Expr) bool { return isNamed(e, "err") }
	isOther := func(e ast.Expr) bool { return !isErr(e) && !isNamed(e, "_") }
	return slices.ContainsFunc(s.list, func(st ast.Stmt) bool {
		names, _ := assignment(st)
		if assign, ok := st.(*ast.AssignStmt); ok && (assign.Tok != token.DEFINE || slices.ContainsFunc(names, isOther)) {
			return false
		}
		follows := s.inside != nil && s.inside.Pos() <= st.Pos()
		if s.stmt != nil {
			follows = s.stmt.End() <= st.Pos()
		}
		return follows && slices.ContainsFunc(names, isErr)
	})
}
