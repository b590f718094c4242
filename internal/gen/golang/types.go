package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// typeCode returns the code for a type.
func (f *file) typeCode(t *ir.Type) *jen.Statement {
	switch t.Kind {
	case ir.String, ir.Literal:
		return jen.String()
	case ir.Bool:
		return jen.Bool()
	case ir.Int64:
		return jen.Int64()
	case ir.Float64:
		return jen.Float64()
	case ir.Bytes:
		return jen.Index().Byte()
	case ir.Time:
		return jen.Qual(eventsPath, "Time")
	case ir.Slice:
		return jen.Index().Add(f.typeCode(t.Elem))
	case ir.Map:
		return jen.Map(jen.String()).Add(f.typeCode(t.Elem))
	case ir.Pointer:
		return pointer(f.typeCode(t.Elem))
	case ir.Optional:
		return jen.Qual(eventsPath, "Optional").Types(f.typeCode(t.Elem))
	case ir.Named:
		return jen.Id(t.Decl.Name)
	}
	return f.externalType(t.Go)
}

// declareAlias adds the declaration of an alias or a defined type.
func (f *file) declareAlias(d *ir.Decl) {
	var more []string
	if d.Why != "" {
		more = append(more, "It is raw JSON: "+oneLine(d.Why)+".")
	}
	f.typeDoc(d, d.Role, more...)
	declared := f.Type().Id(d.Name)
	if d.Form == ir.Alias {
		declared.Op("=")
	}
	declared.Add(f.typeCode(d.Type))
}
