package gen

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// Inspect returns the model of the package that r describes, or nil if a diagnostic is an error. See MODEL-1.
func Inspect(ctx context.Context, r Request) (*model.Package, []diagnostic.Diagnostic, error) {
	m, diags, err := loadPackage(ctx, r)
	if m == nil {
		return nil, diags, err
	}
	p := m.pkg.Describe()
	typescript.Name(p)
	return p, diags, ctx.Err()
}

// describe returns the model with the names for all languages. It names source files like the headers of generated
// files at the location.
func (m *loadedPackage) describe(at location) *model.Package {
	p := m.pkg.Describe()
	typescript.Name(p)
	for i, s := range p.Sources {
		p.Sources[i] = at.sourceName(m.request.path(s))
	}
	return p
}

// sources returns the paths of the event files, including files that are only the target of a $ref.
func (m *loadedPackage) sources() []string {
	var all []string
	for _, f := range m.pkg.Files {
		all = append(all, m.request.path(f.Path))
	}
	return all
}
