package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// declareImported declares aliases for the types and constants that another package declares for an event file. It
// omits helper types of unions, because this package does not refer to them.
func (f *file) declareImported(source *ir.File) {
	for _, d := range source.Decls {
		f.typeDoc(d, d.Role+", as package "+source.Import+" declares it")
		f.Type().Id(d.Name).Op("=").Add(f.externalType(ir.GoType{Path: source.Import, Name: d.Name}))
		if len(d.Values) == 0 {
			continue
		}
		f.addDoc("The values of " + d.Name + ".")
		f.Const().DefsFunc(func(g *jen.Group) {
			for _, v := range d.Values {
				g.Id(v.Name).Op("=").Add(f.externalType(ir.GoType{Path: source.Import, Name: v.Name}))
			}
		})
	}
}
