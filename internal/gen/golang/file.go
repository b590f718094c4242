package golang

import (
	"bytes"
	"fmt"
	"go/format"

	"github.com/dave/jennifer/jen"
)

// A file collects the declarations of a generated Go file.
type file struct {
	*jen.File
	options Options
}

// newFile returns a file with a header, a package comment and a package clause.
func newFile(pkg string, o Options, sources, doc []string) *file {
	f := &file{jen.NewFilePathName(o.ImportPath, pkg), o}
	f.NoFormat = true // content formats the file after grouping the imports
	f.ImportNames(importNames)
	f.HeaderComment(Header)
	for _, s := range sources {
		f.HeaderComment(SourcePrefix + s)
	}
	for _, l := range doc {
		f.PackageComment(commentLine(l))
	}
	return f
}

// rendered returns the file's formatted source code with its name.
func (f *file) rendered(name string) rendered {
	content, err := f.content()
	if err != nil {
		err = fmt.Errorf("write %s: %w", name, err)
	}
	return rendered{name, content, err}
}

// content returns the formatted source code of the file.
func (f *file) content() ([]byte, error) {
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
