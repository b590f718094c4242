package adopt

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// A getter describes the function that returns the server for a handler.
type getter struct {
	// choosesServer reports whether the function creates or looks up a server instead of returning a variable.
	// mayReturnNil reports whether it may return nil.
	choosesServer, mayReturnNil bool
	// function is set if the function is a literal. body is its body, if that is known.
	function *ast.FuncLit
	body     *ast.BlockStmt
}

// getterOf analyzes the function that a handler gets its server from. It looks up a named function in the files that
// import the SDK.
func (found *Found) getterOf(p *Place) getter {
	if p.Kind != Handler && p.Kind != SSE || len(p.call.Args) == 0 {
		return getter{}
	}
	var of *ast.FuncType
	var g getter
	switch fun := ast.Unparen(p.call.Args[0]).(type) {
	case *ast.FuncLit:
		g.function = fun
	case *ast.Ident:
		if g.function = initializer(fun); g.function == nil {
			of, g.body = found.uniqueFunction(fun.Name)
		}
	case *ast.SelectorExpr:
		of, g.body = found.uniqueFunction(fun.Sel.Name)
	}
	if g.function != nil {
		of, g.body = g.function.Type, g.function.Body
	}
	if g.body == nil {
		g.choosesServer = true
		return g
	}
	ast.Inspect(g.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its returns belong to it
		case *ast.ReturnStmt:
			if len(n.Results) != 1 {
				g.choosesServer = true // it returns a value assigned to its named result
				break
			}
			id := rootIdentifier(n.Results[0])
			switch {
			case id == nil:
				g.choosesServer = true
			case id.Name == "nil":
				g.mayReturnNil = true
			case id.Obj != nil && of.Params.Pos() <= id.Obj.Pos() && id.Obj.Pos() < g.body.End():
				g.choosesServer = true // a local variable of the function
			}
		}
		return true
	})
	return g
}

// rootIdentifier returns the identifier at the root of a name or field selection. It returns nil for a call, an index
// expression or a composite literal.
func rootIdentifier(e ast.Expr) *ast.Ident {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return rootIdentifier(e.X)
	}
	return nil
}

// initializer returns the function literal that initializes a variable, or nil.
func initializer(id *ast.Ident) *ast.FuncLit {
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

// uniqueFunction returns the type and body of the only function or method with the given name, or nil.
func (found *Found) uniqueFunction(name string) (*ast.FuncType, *ast.BlockStmt) {
	if all := found.functionsNamed(name); len(all) == 1 {
		return all[0].Type, all[0].Body
	}
	return nil, nil
}

// functionsNamed returns all functions and methods with the given name.
func (found *Found) functionsNamed(name string) []*ast.FuncDecl {
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

// isFactory reports whether a NewServer call creates a server for each request. It does if it is in a function that
// handles a request, in a function called by such a function, or if the handler is created for each request. If a
// function chooses the handler's server, calls in that function, in functions that it calls, and in functions that
// return a server also create one for each request.
func (found *Found) isFactory(p *Place) bool {
	if isMadeOnce(p) {
		return false
	}
	if found.isReachedFrom(p, handlerBody) || found.isMadeForHandler(p) {
		return true
	}
	fun, _ := declarationOf(p).(*ast.FuncDecl)
	for i := range found.Places {
		h := &found.Places[i]
		g := found.getterOf(h)
		if !g.choosesServer {
			continue
		}
		if g.function != nil && h.file == p.file && g.function.Pos() <= p.call.Pos() && p.call.End() <= g.function.End() {
			return true
		}
		if fun != nil && (found.returnsServer(p.file, fun) || g.body != nil && found.reaches(g.body, fun, map[*ast.FuncDecl]bool{})) {
			return true
		}
	}
	return false
}

// reaches reports whether code calls a function directly or through other functions. It compares only names.
func (found *Found) reaches(body ast.Node, fun *ast.FuncDecl, seen map[*ast.FuncDecl]bool) bool {
	does := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || does {
			return !does
		}
		var called []*ast.FuncDecl
		switch name := ast.Unparen(call.Fun).(type) {
		case *ast.Ident:
			called = slices.DeleteFunc(found.functionsNamed(name.Name), func(f *ast.FuncDecl) bool { return f.Recv != nil })
		case *ast.SelectorExpr:
			called = found.functionsNamed(name.Sel.Name)
		}
		for _, f := range called {
			if !seen[f] {
				seen[f] = true
				does = does || f == fun || found.reaches(f.Body, fun, seen)
			}
		}
		return !does
	})
	return does
}

// returnsServer reports whether one of a function's results is the SDK's *Server.
func (found *Found) returnsServer(f *file, fun *ast.FuncDecl) bool {
	return fun.Type.Results != nil && slices.ContainsFunc(fun.Type.Results.List, func(field *ast.Field) bool {
		return found.sdkType(f, field.Type, 0) == "*Server"
	})
}

// sdkType returns the SDK's name for a type, with a star for a pointer, or "" for any other type. It resolves type
// aliases of the module by package name.
func (found *Found) sdkType(f *file, t ast.Expr, depth int) string {
	name, pkg := "", f.syntax.Name.Name
	switch t := ast.Unparen(t).(type) {
	case *ast.StarExpr:
		if of := found.sdkType(f, t.X, depth); of != "" {
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
				// Circular aliases do not compile, but must not cause an endless loop.
				if alias, ok := spec.(*ast.TypeSpec); ok && alias.Assign.IsValid() && alias.Name.Name == name && depth < 8 {
					return found.sdkType(in, alias.Type, depth+1)
				}
			}
		}
	}
	if f.sdk == "." && pkg == f.syntax.Name.Name {
		return name
	}
	return ""
}

// isMadeOnce reports whether a server is created in a function that is passed to sync.Once or sync.OnceValue.
func isMadeOnce(p *Place) bool {
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

// handlerBody returns the body of n if n is a function that handles an HTTP request.
func handlerBody(n ast.Node) ast.Node {
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

// loopOf returns n if it is a loop, or nil.
func loopOf(n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return n
	}
	return nil
}

// isInLoop reports whether a loop may create the server at a place more than once.
func (found *Found) isInLoop(p *Place) bool { return found.isReachedFrom(p, loopOf) }

// isReachedFrom reports whether a node that find returns contains the call at a place, or calls the function that
// contains it.
func (found *Found) isReachedFrom(p *Place, find func(ast.Node) ast.Node) bool {
	fun, _ := declarationOf(p).(*ast.FuncDecl)
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

// callsFrom reports whether a part of a file calls a function of another file. It compares only names and the number of
// arguments.
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
				does = does || f.importsPackage(of, in) == (fun.Recv == nil)
			}
		}
		return !does
	})
	return does
}

// importsPackage reports whether a name refers to the package of another file. It compares only names.
func (f *file) importsPackage(name *ast.Ident, in *file) bool {
	return name != nil && name.Obj == nil && slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool {
		of := strings.Trim(spec.Path.Value, `"`)
		return importName(f.syntax, of) == name.Name && (path.Base(of) == in.syntax.Name.Name || path.Base(of) == path.Base(path.Dir(in.path)))
	})
}

// isServedIn reports whether the function that creates a server also serves it over HTTP.
func (found *Found) isServedIn(p *Place) bool {
	for i := range found.Places {
		if h := &found.Places[i]; (h.Kind == Handler || h.Kind == SSE) && declarationOf(h) == declarationOf(p) {
			return true
		}
	}
	return false
}

// Makes reports whether the module creates any server.
func (found *Found) Makes() bool {
	return slices.ContainsFunc(found.Places, func(p Place) bool { return p.Kind == NewServer })
}
