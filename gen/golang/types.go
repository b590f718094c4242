package golang

import (
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// typeCode is how a type is written where it is used.
func typeCode(t *ir.Type) *jen.Statement {
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
		return jen.Index().Add(typeCode(t.Elem))
	case ir.Map:
		return jen.Map(jen.String()).Add(typeCode(t.Elem))
	case ir.Pointer:
		return jen.Op("*").Add(typeCode(t.Elem))
	case ir.Optional:
		return jen.Qual(eventsPath, "Optional").Types(typeCode(t.Elem))
	case ir.Named:
		return jen.Id(t.Decl.Name)
	}
	if t.Go.Path == "" {
		return jen.Id(t.Go.Name)
	}
	return jen.Qual(t.Go.Path, t.Go.Name)
}

// text is a string literal, raw where that is possible: schemas read better without escapes.
func text(s string) *jen.Statement {
	if strings.ContainsAny(s, "`\r\uFEFF") || !strings.ContainsAny(s, `"\`) {
		return jen.Op(strconv.Quote(s))
	}
	return jen.Op("`" + s + "`")
}

// alias writes the declarations that stand for another type.
func (w *writer) alias(d *ir.Decl) {
	code := jen.Type().Id(d.Name)
	if d.Form == ir.Alias {
		code = code.Op("=")
	}
	w.add(typeDoc(d, d.Role), code.Add(typeCode(d.Type)))
}
