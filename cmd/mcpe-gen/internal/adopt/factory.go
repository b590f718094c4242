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
	// server is the variable that the function returns, or whose field it returns, or nil.
	server *ast.Ident
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
			default:
				g.server = id
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
	declaration, _ := id.Obj.Decl.(ast.Node)
	names, values := assignment(declaration)
	for i, name := range names {
		if isNamed(name, id.Name) && i < len(values) {
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

// isFactory reports whether a NewServer call creates a server for each request. It does if the function of a request, or
// the function with which a handler chooses its server, contains the call or leads to it. If a function value, or the
// look-up of a handler, returns a server that no call leads to, each function that hands out a server may have created it.
func (found *Found) isFactory(p *Place) bool {
	var choosers []ast.Node
	unknown := false
	for i := range found.Places {
		h := &found.Places[i]
		unknown = unknown || found.servesUnknown(h)
		if g := found.getterOf(h); g.choosesServer {
			choosers = append(choosers, h.call.Args[0], g.body)
		}
	}
	return !found.isWithin(p.file, p.call, isOnce) && found.isWithin(p.file, p.call, func(f *file, n ast.Node) bool {
		if fun, ok := n.(*ast.FuncDecl); ok && (len(choosers) > 0 && found.returnsServer(f, fun) || unknown && found.isHandedOut(fun)) {
			return true
		}
		return isRequestHandler(f, n) || slices.Contains(choosers, n)
	})
}

// servesUnknown reports whether a handler that is created for each request serves what a function value returns.
func (found *Found) servesUnknown(h *Place) bool {
	server := found.getterOf(h).server
	if server == nil || server.Obj == nil || !found.isWithin(h.file, h.call, isRequestHandler) {
		return false
	}
	unknown := false
	ast.Inspect(declarationOf(h.file, h.call), func(n ast.Node) bool {
		names, values := assignment(n)
		if len(values) == 0 {
			return true
		}
		id, _ := names[0].(*ast.Ident)
		if call, ok := values[0].(*ast.CallExpr); ok && id != nil && id.Obj == server.Obj {
			unknown = unknown || len(found.functionsNamed(calledName(call))) == 0
		}
		return true
	})
	return unknown
}

// calledName returns the name of the function or method that a call invokes, or "".
func calledName(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// isHandedOut reports whether the server that a function creates is served by other code. Function main is excluded
// because it runs only once.
func (found *Found) isHandedOut(fun *ast.FuncDecl) bool {
	return (fun.Recv != nil || fun.Name.Name != "main") && !slices.ContainsFunc(found.Places, func(p Place) bool {
		return p.Kind != NewServer && declarationOf(p.file, p.call) == ast.Node(fun)
	})
}

// isWithin reports whether a node that a test accepts contains a call, or leads to it by the calls of functions.
func (found *Found) isWithin(f *file, call *ast.CallExpr, accepts func(*file, ast.Node) bool) bool {
	seen := map[ast.Node]bool{}
	var within func(f *file, call *ast.CallExpr) bool
	within = func(f *file, call *ast.CallExpr) bool {
		accepted := false
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if accepted || !contains(n, call) {
				return false
			}
			accepted = accepts(f, n)
			return true
		})
		fun, ok := declarationOf(f, call).(*ast.FuncDecl)
		if accepted || !ok || seen[fun] {
			return accepted
		}
		seen[fun] = true
		return slices.ContainsFunc(found.callers(f, fun), func(c caller) bool { return within(c.file, c.call) })
	}
	return within(f, call)
}

// declarationOf returns the top-level declaration that contains a call.
func declarationOf(f *file, call *ast.CallExpr) ast.Node {
	for _, d := range f.syntax.Decls {
		if contains(d, call) {
			return d
		}
	}
	return nil
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

// isOnce reports whether a node calls a function of sync.Once or sync.OnceValue.
func isOnce(_ *file, n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && len(call.Args) == 1 && slices.Contains([]string{"Do", "OnceFunc", "OnceValue", "OnceValues"}, calledName(call))
}

// isRequestHandler reports whether a node is a function that handles an HTTP request.
func isRequestHandler(_ *file, n ast.Node) bool {
	var of *ast.FuncType
	switch n := n.(type) {
	case *ast.FuncDecl:
		of = n.Type
	case *ast.FuncLit:
		of = n.Type
	default:
		return false
	}
	return slices.ContainsFunc(of.Params.List, func(f *ast.Field) bool {
		sel, ok := f.Type.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "ResponseWriter"
	})
}

// isLoop reports whether a node is a loop.
func isLoop(_ *file, n ast.Node) bool {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}
	return false
}

// A caller is a call of a function.
type caller struct {
	file *file
	call *ast.CallExpr
}

// callers returns the calls of a function in a file. It compares only names and the number of arguments.
func (found *Found) callers(in *file, fun *ast.FuncDecl) []caller {
	var callers []caller
	for _, f := range found.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || calledName(call) != fun.Name.Name || !accepts(fun.Type.Params, len(call.Args)) {
				return true
			}
			sel, _ := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			does := sel == nil && fun.Recv == nil && path.Dir(f.path) == path.Dir(in.path)
			if sel != nil {
				of, _ := sel.X.(*ast.Ident)
				does = fun.Recv == nil && f.importsPackage(of, in) || fun.Recv != nil && !f.isImport(of)
			}
			if does {
				callers = append(callers, caller{f, call})
			}
			return true
		})
	}
	return callers
}

// accepts reports whether parameters accept a number of arguments.
func accepts(params *ast.FieldList, n int) bool {
	if last := len(params.List) - 1; last >= 0 {
		if _, variadic := params.List[last].Type.(*ast.Ellipsis); variadic {
			return n >= params.NumFields()-1
		}
	}
	return n == params.NumFields()
}

// isImport reports whether a name refers to an import.
func (f *file) isImport(name *ast.Ident) bool {
	return name != nil && name.Obj == nil && slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool { return nameOf(spec) == name.Name })
}

// importsPackage reports whether a name refers to the package of another file. It compares only names.
func (f *file) importsPackage(name *ast.Ident, in *file) bool {
	return name != nil && name.Obj == nil && slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool {
		of := strings.Trim(spec.Path.Value, `"`)
		return importName(f.syntax, of) == name.Name && (path.Base(of) == in.syntax.Name.Name || path.Base(of) == path.Base(path.Dir(in.path)))
	})
}
