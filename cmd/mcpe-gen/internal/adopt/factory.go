package adopt

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// A getter is what the function says that gives a handler its server.
type getter struct {
	// chooses tells that it makes a server, or looks for one, instead of naming a variable; refuses that it may give nil.
	chooses, refuses bool
	// function is where it is a literal, body what it does where that is known.
	function *ast.FuncLit
	body     *ast.BlockStmt
}

// getter reads the function of a handler. A named one is looked up among the files that import the SDK.
func (found *Found) getter(p *Place) getter {
	if p.Kind != Handler && p.Kind != SSE || len(p.call.Args) == 0 {
		return getter{}
	}
	var of *ast.FuncType
	var g getter
	switch fun := ast.Unparen(p.call.Args[0]).(type) {
	case *ast.FuncLit:
		g.function = fun
	case *ast.Ident:
		if g.function = literal(fun); g.function == nil {
			of, g.body = found.function(fun.Name)
		}
	case *ast.SelectorExpr:
		of, g.body = found.function(fun.Sel.Name)
	}
	if g.function != nil {
		of, g.body = g.function.Type, g.function.Body
	}
	if g.body == nil {
		g.chooses = true
		return g
	}
	ast.Inspect(g.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its returns are its own
		case *ast.ReturnStmt:
			if len(n.Results) != 1 {
				g.chooses = true // what it has assigned to its named result
				break
			}
			id := variable(n.Results[0])
			switch {
			case id == nil:
				g.chooses = true
			case id.Name == "nil":
				g.refuses = true
			case id.Obj != nil && of.Params.Pos() <= id.Obj.Pos() && id.Obj.Pos() < g.body.End():
				g.chooses = true // a variable of the function itself
			}
		}
		return true
	})
	return g
}

// variable is what a name, or the selection of a field, begins with; nil for what is called, indexed or made.
func variable(e ast.Expr) *ast.Ident {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return variable(e.X)
	}
	return nil
}

// literal is the function that a variable was declared with, nil for anything else.
func literal(id *ast.Ident) *ast.FuncLit {
	if id.Obj == nil {
		return nil
	}
	var names, values []ast.Expr
	switch d := id.Obj.Decl.(type) {
	case *ast.AssignStmt:
		names, values = d.Lhs, d.Rhs
	case *ast.ValueSpec:
		for _, name := range d.Names {
			names = append(names, name)
		}
		values = d.Values
	}
	for i, name := range names {
		if n, ok := name.(*ast.Ident); ok && n.Name == id.Name && i < len(values) {
			fun, _ := ast.Unparen(values[i]).(*ast.FuncLit)
			return fun
		}
	}
	return nil
}

// function is a function or method of a name, nil where none or several are known.
func (found *Found) function(name string) (*ast.FuncType, *ast.BlockStmt) {
	if all := found.functions(name); len(all) == 1 {
		return all[0].Type, all[0].Body
	}
	return nil, nil
}

// functions are all functions and methods of a name.
func (found *Found) functions(name string) []*ast.FuncDecl {
	var all []*ast.FuncDecl
	for _, f := range found.files {
		for _, d := range f.syntax.Decls {
			if fun, ok := d.(*ast.FuncDecl); ok && fun.Name.Name == name && fun.Body != nil {
				all = append(all, fun)
			}
		}
	}
	return all
}

// isFactory reports whether a NewServer makes a server for each request: in a function that answers a request, or that such
// a function calls; for a handler that is made for each request; and if a function chooses the handler's server, in that
// function, in a function that it calls, or in a function that returns a server.
func (found *Found) isFactory(p *Place) bool {
	if madeOnce(p) {
		return false
	}
	if found.reachedFrom(p, answers) || found.isMadeForHandler(p) {
		return true
	}
	fun, _ := declaration(p).(*ast.FuncDecl)
	for i := range found.Places {
		h := &found.Places[i]
		g := found.getter(h)
		if !g.chooses {
			continue
		}
		if g.function != nil && h.file == p.file && g.function.Pos() <= p.call.Pos() && p.call.End() <= g.function.End() {
			return true
		}
		if fun != nil && (found.returnsServer(p.file, fun) || g.body != nil && found.calls(g.body, fun, map[*ast.FuncDecl]bool{})) {
			return true
		}
	}
	return false
}

// calls reports whether a piece of code calls a function, itself or through other functions, as far as names show.
func (found *Found) calls(body ast.Node, fun *ast.FuncDecl, seen map[*ast.FuncDecl]bool) bool {
	does := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || does {
			return !does
		}
		var called []*ast.FuncDecl
		switch name := ast.Unparen(call.Fun).(type) {
		case *ast.Ident:
			called = slices.DeleteFunc(found.functions(name.Name), func(f *ast.FuncDecl) bool { return f.Recv != nil })
		case *ast.SelectorExpr:
			called = found.functions(name.Sel.Name)
		}
		for _, f := range called {
			if !seen[f] {
				seen[f] = true
				does = does || f == fun || found.calls(f.Body, fun, seen)
			}
		}
		return !does
	})
	return does
}

// returnsServer reports whether a function has a result of the SDK's type.
func (found *Found) returnsServer(f *file, fun *ast.FuncDecl) bool {
	return fun.Type.Results != nil && slices.ContainsFunc(fun.Type.Results.List, func(field *ast.Field) bool {
		return found.resolved(f, field.Type, 0) == "*Server"
	})
}

// resolved is the SDK's name of a type, with a star for a pointer, "" for any other. It knows aliases of the module by
// the names of their packages.
func (found *Found) resolved(f *file, t ast.Expr, depth int) string {
	name, pkg := "", f.syntax.Name.Name
	switch t := ast.Unparen(t).(type) {
	case *ast.StarExpr:
		if of := found.resolved(f, t.X, depth); of != "" {
			return "*" + of
		}
		return ""
	case *ast.SelectorExpr:
		if id, ok := t.X.(*ast.Ident); ok {
			name, pkg = t.Sel.Name, id.Name
		}
	case *ast.Ident:
		name = t.Name
	}
	if pkg == f.sdk {
		return name
	}
	for _, in := range found.files {
		if in.syntax.Name.Name != pkg {
			continue
		}
		for _, d := range in.syntax.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				// Aliases that name each other in a circle do not compile, and must not hang.
				if alias, ok := spec.(*ast.TypeSpec); ok && alias.Assign.IsValid() && alias.Name.Name == name && depth < 8 {
					return found.resolved(in, alias.Type, depth+1)
				}
			}
		}
	}
	if f.sdk == "." && pkg == f.syntax.Name.Name {
		return name
	}
	return ""
}

// madeOnce reports whether a server is made in a function that is given to a sync.Once or a sync.OnceValue.
func madeOnce(p *Place) bool {
	once := false
	ast.Inspect(p.file.syntax, func(n ast.Node) bool {
		if n == nil || n.Pos() > p.call.Pos() || n.End() < p.call.End() {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
			sel, ok := call.Fun.(*ast.SelectorExpr)
			once = once || ok && slices.Contains([]string{"Do", "OnceFunc", "OnceValue", "OnceValues"}, sel.Sel.Name)
		}
		return !once
	})
	return once
}

// answers is the body of a function that answers an HTTP request.
func answers(n ast.Node) ast.Node {
	var of *ast.FuncType
	var body *ast.BlockStmt
	switch n := n.(type) {
	case *ast.FuncDecl:
		of, body = n.Type, n.Body
	case *ast.FuncLit:
		of, body = n.Type, n.Body
	}
	if body == nil || !slices.ContainsFunc(of.Params.List, func(f *ast.Field) bool {
		sel, ok := f.Type.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "ResponseWriter"
	}) {
		return nil
	}
	return body
}

// repeats is a loop.
func repeats(n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return n
	}
	return nil
}

// inLoop reports whether a loop may make the server of a place more than once.
func (found *Found) inLoop(p *Place) bool { return found.reachedFrom(p, repeats) }

// reachedFrom reports whether one of the parts of the module that find gives has the call of a place, or calls the
// function that has it.
func (found *Found) reachedFrom(p *Place, find func(ast.Node) ast.Node) bool {
	fun, _ := declaration(p).(*ast.FuncDecl)
	reached := false
	for _, f := range found.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if part := find(n); part != nil && !reached {
				reached = f == p.file && part.Pos() <= p.call.Pos() && p.call.End() <= part.End() || fun != nil && callsFrom(f, part, p.file, fun)
			}
			return !reached
		})
	}
	return reached
}

// callsFrom reports whether a part of a file calls a function of another file, as far as names and the number of
// arguments tell.
func callsFrom(f *file, part ast.Node, in *file, fun *ast.FuncDecl) bool {
	does := false
	ast.Inspect(part, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != fun.Type.Params.NumFields() {
			return !does
		}
		switch name := ast.Unparen(call.Fun).(type) {
		case *ast.Ident:
			does = does || name.Name == fun.Name.Name && fun.Recv == nil && path.Dir(f.path) == path.Dir(in.path)
		case *ast.SelectorExpr:
			if name.Sel.Name == fun.Name.Name {
				of, _ := name.X.(*ast.Ident)
				does = does || f.imports(of, in) == (fun.Recv == nil)
			}
		}
		return !does
	})
	return does
}

// imports reports whether a name is that of the package of another file, as far as names tell.
func (f *file) imports(name *ast.Ident, in *file) bool {
	return name != nil && name.Obj == nil && slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool {
		of := strings.Trim(spec.Path.Value, `"`)
		return importName(f.syntax, of) == name.Name && (path.Base(of) == in.syntax.Name.Name || path.Base(of) == path.Base(path.Dir(in.path)))
	})
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
