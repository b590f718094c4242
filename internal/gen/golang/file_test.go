package golang

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The package of the types is imported under a name that nothing else in the code for servers or clients has.
func TestTypesImport(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"notes", "example.com/m/notes", `import "example.com/m/notes"`},
		{"notes", "example.com/m/api", `import notes "example.com/m/api"`},
		{"s", "example.com/m/s", `import stypes "example.com/m/s"`},
		{"any", "example.com/m/any", `import anytypes "example.com/m/any"`},
		{schemasVar, "example.com/m/x", `import publishedSchemastypes "example.com/m/x"`},
	} {
		f := newFile(Server, Options{Places: [3]Place{Types: {c.name, c.path}, Server: {"x", "example.com/x"}}}, nil, nil)
		f.Var().Id("_").Add(f.declared("T"))
		content, err := f.sourceCode()
		if err != nil || !strings.Contains(string(content), "\n"+c.want+"\n") {
			t.Errorf("package %s: %v\n%s", c.name, err, content)
		}
	}
}

// Every parameter, receiver and variable of a function in the golden code for servers and clients is in localNames.
func TestLocalNames(t *testing.T) {
	seen := map[string]bool{}
	for _, part := range []string{"server", "client"} {
		files, err := filepath.Glob("../../../golden/*/want/*" + part + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			add := func(id *ast.Ident) {
				seen[id.Name] = true
				if !slices.Contains(localNames, id.Name) && id.Name != "_" {
					t.Errorf("%s: %s is not in localNames", name, id.Name)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.StructType:
					return false // its fields are not variables
				case *ast.Field:
					if _, method := n.Type.(*ast.FuncType); method && len(n.Names) == 1 && n.Names[0].IsExported() {
						break
					}
					for _, id := range n.Names {
						add(id)
					}
				case *ast.AssignStmt:
					for _, e := range n.Lhs {
						if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
							add(id)
						}
					}
				}
				return true
			})
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d names were found", len(seen))
	}
}
