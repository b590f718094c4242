package subscriber

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// Live subscriptions begin and end in one function each.
func TestOnePath(t *testing.T) {
	callers := map[string][]string{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if called := calledBy(n); called != "" {
					callers[called] = append(callers[called], fn.Name.Name)
				}
				return true
			})
		}
	}
	for called, want := range map[string][]string{
		"removeLive": {"endLive"},
		"addLive":    {"start"},
		"start":      {"begin"},
		"engine.Add": {"endRecord", "start"}, // endRecord only sends an envelope
	} {
		if got := slices.Sorted(slices.Values(callers[called])); !slices.Equal(got, want) {
			t.Errorf("%s is called by %q, want %q", called, got, want)
		}
	}
}

// calledBy returns the name of the method that a call expression calls, with the field before the method if the field
// is the engine. It returns "" for other nodes.
func calledBy(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if field, ok := method.X.(*ast.SelectorExpr); ok && field.Sel.Name == "engine" {
		return "engine." + method.Sel.Name
	}
	return method.Sel.Name
}
