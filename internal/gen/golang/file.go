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

// newFile returns a file without declarations. sources lists the event files for the header, and doc is the package
// comment.
func newFile(pkg string, o Options, sources, doc []string) *file {
	f := &file{jen.NewFilePathName(o.ImportPath, pkg), o}
	f.NoFormat = true // sourceCode formats the file after grouping the imports
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

// render formats the source code of the file and pairs it with the file name.
func (f *file) render(name string) rendered {
	content, err := f.sourceCode()
	if err != nil {
		err = fmt.Errorf("write %s: %w", name, err)
	}
	return rendered{name, content, err}
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
