package golang

import (
	"bytes"
	"fmt"
	"go/format"
	"path"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// A file collects the declarations of a generated Go file.
type file struct {
	*jen.File
	part    Part
	options Options
}

// newFile returns a file of a part without declarations. sources lists the event files for the header, and doc is the
// package comment.
func newFile(part Part, o Options, sources, doc []string) *file {
	at, types := o.Places[part], o.Places[Types]
	f := &file{jen.NewFilePathName(at.ImportPath, at.Name), part, o}
	f.NoFormat = true // sourceCode formats the file after grouping the imports
	f.ImportNames(importNames)
	switch {
	case slices.Contains(localNames, types.Name) || strings.ToLower(types.Name) != types.Name:
		f.ImportAlias(types.ImportPath, types.Name+"types")
	case path.Base(types.ImportPath) != types.Name:
		f.ImportAlias(types.ImportPath, types.Name)
	default:
		f.ImportName(types.ImportPath, types.Name)
	}
	f.HeaderComment(Header)
	for _, s := range sources {
		f.HeaderComment(SourcePrefix + s)
	}
	for _, l := range doc {
		f.PackageComment(commentLine(l))
	}
	return f
}

// localNames lists the names of parameters, receivers and variables in generated functions, and predeclared names that
// jennifer does not reserve. The package of the types is not imported under these names, or under a name with an
// upper-case letter, which a declaration of the other packages may have.
var localNames = strings.Fields("a any args c comparable ctx cursor e err f h in info l m o p s stop y")

// declared returns a reference to a declaration of the types' package.
func (f *file) declared(name string) *jen.Statement {
	return jen.Qual(f.options.Places[Types].ImportPath, name)
}

// render formats the source code of the file and pairs it with the file name.
func (f *file) render(name string) rendered {
	content, err := f.sourceCode()
	if err != nil {
		err = fmt.Errorf("write %s: %w", name, err)
	}
	return rendered{f.part, name, content, err}
}

// sourceCode returns the source code of the file, formatted and with grouped imports.
func (f *file) sourceCode() ([]byte, error) {
	var source bytes.Buffer
	if err := f.Render(&source); err != nil {
		return nil, err
	}
	grouped, err := groupImports(source.Bytes())
	if err != nil {
		return nil, err
	}
	return format.Source(grouped)
}

// Lines returns the number of lines that declare the types.
func Lines(decls []*ir.Decl) int {
	f := newFile(Types, Options{Places: [3]Place{{Name: "types", ImportPath: "types"}}}, nil, nil)
	f.declareTypes(decls)
	code, err := f.sourceCode()
	if err != nil || len(decls) == 0 {
		return 0
	}
	_, code, _ = bytes.Cut(code, []byte("\n// "+decls[0].Name+" ")) // after the imports
	return bytes.Count(code, []byte("\n"))
}
