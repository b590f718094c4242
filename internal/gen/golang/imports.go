package golang

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// externalType returns a reference to a Go type chosen by the author, and imports its package. The name of a package that
// has the name of one of ours, or a predeclared name that jennifer does not reserve, gets a number: signatures of
// generated code keep the names that its documentation has.
func (f *file) externalType(t ir.GoType) *jen.Statement {
	if t.Path == "" {
		return jen.Id(t.Name)
	}
	ours := append(slices.Collect(maps.Values(importNames)), f.options.Places[Types].Name, "any", "comparable")
	switch last := path.Base(version.ReplaceAllString(t.Path, "")); {
	case IsStandard(t.Path):
		f.ImportName(t.Path, last)
	case !strings.HasPrefix(t.Path, module) && slices.Contains(ours, last):
		f.ImportAlias(t.Path, last+"1")
	}
	return jen.Qual(t.Path, t.Name)
}

var version = regexp.MustCompile(`/v[0-9]+$`)

// standardTops lists the first elements of standard library import paths. Other import paths are unlikely to start with
// them.
var standardTops = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar " +
	"flag fmt go hash html image index io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings " +
	"structs sync syscall testing text time unicode unique unsafe weak")

// IsStandard reports whether an import path is in the standard library. Such a path ends in the package name.
func IsStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains(standardTops, first)
}

// groupImports separates standard library imports from other imports, like goimports. Package jennifer writes a single
// group.
func groupImports(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	if len(parsed.Imports) < 2 {
		return source, nil
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	var standard, others []byte
	for _, spec := range parsed.Imports {
		group := &standard
		if first, _, _ := strings.Cut(spec.Path.Value, "/"); strings.Contains(first, ".") {
			group = &others
		}
		*group = append(append(*group, source[offset(spec.Pos()):offset(spec.End())]...), '\n')
	}
	block := parsed.Decls[0].(*ast.GenDecl)
	return slices.Concat(source[:offset(block.Lparen)+1], standard, []byte{'\n'}, others, source[offset(block.Rparen):]), nil
}
