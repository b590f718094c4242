package adopt

import (
	"go/ast"
	"go/types"
	"slices"
)

// serverOf returns the expression for the server that a place serves. It returns "" if a function may create or choose the
// server, or refuse a caller.
func serverOf(h *Place) (server string) {
	if sel, ok := h.call.Fun.(*ast.SelectorExpr); ok && h.Kind == Run {
		return h.file.source(sel.X)
	}
	if len(h.call.Args) == 0 {
		return ""
	}
	fun, ok := ast.Unparen(h.call.Args[0]).(*ast.FuncLit)
	if !ok {
		return ""
	}
	isOne := true
	ast.Inspect(fun.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its returns belong to it
		case *ast.ReturnStmt:
			if len(n.Results) != 1 {
				isOne = false // it returns a value assigned to its named result
				break
			}
			id, of := rootIdentifier(n.Results[0]), types.ExprString(n.Results[0])
			isOne = isOne && id != nil && id.Name != "nil" && (id.Obj == nil || id.Obj.Pos() < fun.Pos() || fun.End() <= id.Obj.Pos()) && (server == "" || server == of)
			server = of
		}
		return true
	})
	if !isOne {
		return ""
	}
	return server
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

// isWithin reports whether a node that a test accepts contains another one.
func (f *file) isWithin(of ast.Node, accepts func(ast.Node) bool) bool {
	accepted := false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		accepted = accepted || n != nil && contains(n, of) && accepts(n)
		return !accepted
	})
	return accepted
}

// declarationOf returns the top-level declaration that contains a call.
func declarationOf(f *file, call ast.Node) ast.Node {
	for _, d := range f.syntax.Decls {
		if contains(d, call) {
			return d
		}
	}
	return nil
}

// isRequestHandler reports whether a node is a function that handles an HTTP request.
func isRequestHandler(n ast.Node) bool {
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
func isLoop(n ast.Node) bool {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}
	return false
}
