package gen_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportsAreGrouped: the standard library's imports stand before those of modules, with one empty
// line between them and none elsewhere.
func TestImportsAreGrouped(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*", "want", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	mixed := 0
	for _, name := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		standard, modules := 0, 0
		for i, spec := range f.Imports {
			first, _, _ := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/")
			module := strings.Contains(first, ".")
			if i > 0 {
				gap := fset.Position(spec.Pos()).Line - fset.Position(f.Imports[i-1].Pos()).Line
				if want := 1 + b2i(module && modules == 0); gap != want {
					t.Errorf("%s: %s stands %d lines below the import before it, want %d", name, spec.Path.Value, gap, want)
				}
			}
			if module {
				modules++
			} else if standard++; modules > 0 {
				t.Errorf("%s: %s stands after the modules", name, spec.Path.Value)
			}
		}
		mixed += b2i(standard > 0 && modules > 0)
	}
	if mixed == 0 {
		t.Error("no file has both")
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
