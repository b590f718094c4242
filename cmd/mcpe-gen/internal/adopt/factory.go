package adopt

import (
	"go/ast"
	"slices"
)

// A getter is what the function says that gives a handler its server.
type getter struct {
	// chooses tells that it makes a server, or looks for one, instead of naming a variable; refuses that it may give nil.
	chooses, refuses bool
	function         *ast.FuncLit
}

// getter reads the function of a handler. A named one is looked up among the files that import the SDK.
func (found *Found) getter(p *Place) getter {
	if p.Kind != Handler && p.Kind != SSE || len(p.call.Args) == 0 {
		return getter{}
	}
	var body *ast.BlockStmt
	var g getter
	switch fun := p.call.Args[0].(type) {
	case *ast.FuncLit:
		g.function, body = fun, fun.Body
	case *ast.Ident:
		body = found.function(fun.Name)
	case *ast.SelectorExpr:
		body = found.function(fun.Sel.Name)
	}
	if body == nil {
		g.chooses = true
		return g
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its returns are its own
		case *ast.ReturnStmt:
			if len(n.Results) != 1 {
				break
			}
			id, named := n.Results[0].(*ast.Ident)
			if sel, ok := n.Results[0].(*ast.SelectorExpr); ok {
				id, named = sel.Sel, true
			}
			switch {
			case !named:
				g.chooses = true
			case id.Name == "nil":
				g.refuses = true
			case id.Obj != nil && body.Pos() <= id.Obj.Pos() && id.Obj.Pos() < body.End():
				g.chooses = true // a variable of the function itself
			}
		}
		return true
	})
	return g
}

// function is the body of a function or method of a name, nil where none or several are known.
func (found *Found) function(name string) *ast.BlockStmt {
	var body *ast.BlockStmt
	for _, f := range found.files {
		for _, d := range f.syntax.Decls {
			if fun, ok := d.(*ast.FuncDecl); ok && fun.Name.Name == name && fun.Body != nil {
				if body != nil {
					return nil
				}
				body = fun.Body
			}
		}
	}
	return body
}

// isFactory reports whether a NewServer makes a server for each request: in the function that a handler asks, or in
// one that returns a server where a handler asks a function that chooses.
func (found *Found) isFactory(p *Place) bool {
	for i := range found.Places {
		h := &found.Places[i]
		g := found.getter(h)
		if !g.chooses {
			continue
		}
		if g.function != nil && h.file == p.file && g.function.Pos() <= p.call.Pos() && p.call.End() <= g.function.End() {
			return true
		}
		if fun, ok := declaration(p).(*ast.FuncDecl); ok && p.returnsServer(fun) {
			return true
		}
	}
	return false
}

// returnsServer reports whether a function has a result of the SDK's type.
func (p *Place) returnsServer(fun *ast.FuncDecl) bool {
	if fun.Type.Results == nil {
		return false
	}
	for _, field := range fun.Type.Results.List {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		switch t := star.X.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := t.X.(*ast.Ident); ok && pkg.Name == p.file.sdk && t.Sel.Name == "Server" {
				return true
			}
		case *ast.Ident:
			if p.file.sdk == "." && t.Name == "Server" {
				return true
			}
		}
	}
	return false
}

// servedIn reports whether the function that makes a server also serves it by HTTP.
func (found *Found) servedIn(p *Place) bool {
	for i := range found.Places {
		if h := &found.Places[i]; (h.Kind == Handler || h.Kind == SSE) && declaration(h) == declaration(p) {
			return true
		}
	}
	return false
}

// Makes reports whether a server is made anywhere.
func (found *Found) Makes() bool {
	return slices.ContainsFunc(found.Places, func(p Place) bool { return p.Kind == NewServer })
}
