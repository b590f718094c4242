package gen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// importChecker returns a function with the reason why code in the Go output directory of the named package cannot use a
// type of another package, and a remedy. It returns nil if r does not have a Go output directory, and an error if r maps
// a format to a type that cannot be used.
func (r Request) importChecker(name string) (func(t ir.GoType) (reason, remedy string), error) {
	if r.Out == "" {
		return nil, nil
	}
	home, err := locate(r.path(r.Out))
	if err != nil {
		return nil, err
	}
	importable, err := home.importChecker()
	if err != nil {
		return nil, err
	}
	outs, err := r.outputs(name)
	if err != nil {
		return nil, err
	}
	importers := map[string]bool{}
	for _, part := range golang.Parts[1:] {
		home, err := locate(r.path(outs[part].shown))
		if err != nil {
			return nil, err
		}
		importers[home.importPath] = true
	}
	standard := map[string][]string{}
	check := func(t ir.GoType) (reason, remedy string) {
		switch {
		case importers[t.Path]:
			return "imports the generated types, so they cannot use its types", "declare the type in another package"
		case !importable(t.Path):
			return "is neither in the standard library nor in a module of go.mod", "write the whole import path, as in github.com/google/uuid.UUID"
		case !golang.IsStandard(t.Path):
			return "", ""
		}
		names, known := standard[t.Path]
		if !known {
			names = standardTypes(t.Path)
			standard[t.Path] = names
		}
		if len(names) == 0 || slices.Contains(names, t.Name) {
			return "", ""
		}
		if near := suggest.Nearest(t.Name, names); near != "" {
			return "has no type " + t.Name, fmt.Sprintf("did you mean %q?", near)
		}
		return "has no type " + t.Name, "see https://pkg.go.dev/" + t.Path
	}
	for _, format := range slices.Sorted(maps.Keys(r.Types)) {
		if g, err := ir.ParseGoType(r.Types[format]); err == nil && g.Path != "" {
			if reason, remedy := check(g); reason != "" {
				return nil, usageOf("types", format, "the Go type of format %s: package %s %s: %s", format, g.Path, reason, remedy)
			}
		}
	}
	return check, nil
}

// standardTypes returns the exported types of a package of the standard library. It returns nil if the machine has no
// source code of it, for example because Go is not installed.
func standardTypes(path string) (names []string) {
	if build.Default.GOROOT == "" {
		return nil
	}
	p, err := build.ImportDir(filepath.Join(build.Default.GOROOT, "src", filepath.FromSlash(path)), 0)
	if err != nil {
		return nil
	}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok && t.Name.IsExported() {
				names = append(names, t.Name.Name)
			}
			_, isFunction := n.(*ast.FuncDecl)
			return !isFunction
		})
	}
	return names
}

// importChecker returns a function that reports whether code in the output directory can import a package. It checks
// only the path, which must be in the standard library, start with a domain, or start with the first element of a
// module in go.mod. Without a go.mod, or in a workspace, whose modules are not in go.mod, it rejects only paths of one
// element.
func (h location) importChecker() (func(path string) bool, error) {
	tops := map[string]bool{}
	content, err := os.ReadFile(filepath.Join(h.base, "go.mod"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := err == nil && !h.inWorkspace()
	if mod, err := modfile.ParseLax("go.mod", content, nil); err == nil {
		if mod.Module != nil {
			tops[firstElement(mod.Module.Mod.Path)] = true
		}
		for _, r := range mod.Require {
			tops[firstElement(r.Mod.Path)] = true
		}
	}
	return func(path string) bool {
		first := firstElement(path)
		return golang.IsStandard(path) || strings.Contains(first, ".") || tops[first] || !known && first != path
	}, nil
}

// inWorkspace reports whether the base directory or one of its parents has a go.work.
func (h location) inWorkspace() bool {
	for at := h.base; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// firstElement returns the first element of an import path.
func firstElement(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}
