package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

func (w *writer) enum(d *ir.Decl) {
	what := d.Role + "; decoding keeps values that the schema does not list, see Known"
	if d.Base == ir.Literal {
		what = d.Role + ", the JSON text of a value; decoding keeps values that the schema does not list, see Known"
	}
	w.add(typeDoc(d, what), jen.Type().Id(d.Name).Add(typeCode(&ir.Type{Kind: d.Base})))
	var constants, names []jen.Code
	for _, v := range d.Values {
		constants = append(constants, jen.Id(v.Name).Id(d.Name).Op("=").Op(v.Literal))
		names = append(names, jen.Id(v.Name))
	}
	w.add(comment("The values of "+d.Name+"."), jen.Const().Defs(constants...))
	known := []jen.Code{
		jen.Switch(jen.Id("v")).Block(jen.Case(jen.List(names...)).Block(jen.Return(jen.True()))),
		jen.Return(jen.False()),
	}
	if len(names) == 1 {
		known = []jen.Code{jen.Return(jen.Id("v").Op("==").Add(names[0]))}
	}
	w.add(
		comment("Known reports whether v is one of the values that the schema lists."),
		jen.Func().Params(jen.Id("v").Id(d.Name)).Id("Known").Params().Bool().Block(known...))
	if d.Base == ir.Literal {
		w.literalMethods(d)
	}
}

// literalMethods writes the JSON methods of an enum whose values have no common Go type.
func (w *writer) literalMethods(d *ir.Decl) {
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Op("*").Id(d.Name)).Id("UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(
		jen.Return(jen.Qual(eventsPath, "DecodeLiteral").Call(jen.Id("b"), jen.Parens(jen.Op("*").String()).Parens(jen.Id("v")))))
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
		jen.Return(jen.Qual(eventsPath, "EncodeLiteral").Call(jen.String().Parens(jen.Id("v")))))
}
