package adopt

import (
	"go/ast"
	"go/token"
)

// isMadeForHandler reports whether a NewServer call creates the server of a handler that is created for each request.
// It follows calls by name. If the called function is unknown, it assumes that the call reaches any function that
// creates a server for other code.
func (found *Found) isMadeForHandler(p *Place) bool {
	for i := range found.Places {
		call := found.serverCall(&found.Places[i])
		if call == nil || found.isAccessor(call) {
			continue
		}
		if found.leadsTo(call, p) {
			return true
		}
		known := false
		for j := range found.Places {
			known = known || found.Places[j].Kind == NewServer && found.leadsTo(call, &found.Places[j])
		}
		if !known && found.isHandedOut(p) {
			return true
		}
	}
	return false
}

// serverCall returns the call that creates the server of a handler. It returns nil unless both are created for each
// request.
func (found *Found) serverCall(h *Place) *ast.CallExpr {
	g, scope := found.getterOf(h), found.requestScope(h)
	if g.body == nil || scope == nil {
		return nil
	}
	var server token.Pos // position of the variable's declaration
	ast.Inspect(g.body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			if id := rootIdentifier(r.Results[0]); id != nil && id.Obj != nil {
				server = id.Obj.Pos()
			}
		}
		return true
	})
	if server < scope.Pos() || scope.End() <= server {
		return nil
	}
	var call *ast.CallExpr
	ast.Inspect(scope, func(n ast.Node) bool {
		var names []ast.Expr
		var value ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			names, value = n.Lhs, n.Rhs[0]
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names = append(names, name)
			}
			if len(n.Values) > 0 {
				value = n.Values[0]
			}
		}
		made, ok := value.(*ast.CallExpr)
		if len(names) > 0 && ok {
			if id, ok := names[0].(*ast.Ident); ok && id.Obj != nil && id.Obj.Pos() == server {
				call = made
			}
		}
		return true
	})
	return call
}

// requestScope returns the innermost function body that contains a handler and runs once per request, or nil.
func (found *Found) requestScope(h *Place) ast.Node {
	var scope ast.Node
	ast.Inspect(h.file.syntax, func(n ast.Node) bool {
		if body := handlerBody(n); body != nil && body.Pos() <= h.call.Pos() && h.call.End() <= body.End() {
			scope = body
		}
		return true
	})
	if fun, ok := declarationOf(h).(*ast.FuncDecl); ok && scope == nil && found.isReachedFrom(h, handlerBody) {
		scope = fun.Body
	}
	return scope
}

// leadsTo reports whether a call reaches the function that contains the NewServer call of a place.
func (found *Found) leadsTo(call *ast.CallExpr, p *Place) bool {
	fun, ok := declarationOf(p).(*ast.FuncDecl)
	return ok && found.reaches(call, fun, map[*ast.FuncDecl]bool{})
}

// isAccessor reports whether a call invokes a known function that makes no calls itself. Such a function returns an
// existing server.
func (found *Found) isAccessor(call *ast.CallExpr) bool {
	name := ""
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	_, body := found.uniqueFunction(name)
	if body == nil {
		return false
	}
	calls := false
	ast.Inspect(body, func(n ast.Node) bool {
		_, ok := n.(*ast.CallExpr)
		calls = calls || ok
		return !calls
	})
	return !calls
}

// isHandedOut reports whether the function that creates a server lets other code serve it. Function main is excluded
// because it runs only once.
func (found *Found) isHandedOut(p *Place) bool {
	fun, ok := declarationOf(p).(*ast.FuncDecl)
	if !ok || fun.Recv == nil && fun.Name.Name == "main" {
		return false
	}
	for i := range found.Places {
		if q := &found.Places[i]; q.Kind != NewServer && declarationOf(q) == fun {
			return false
		}
	}
	return true
}
