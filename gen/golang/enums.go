package golang

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// maxSwitch bounds the values of a switch: the compiler takes more than linear time for one.
const maxSwitch = 300

// compareLiterals compares values of an enum by their Go literals, as Go compares them.
func compareLiterals(base ir.Kind, a, b string) int {
	switch base {
	case ir.Int64, ir.Float64:
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		return x.Cmp(y)
	}
	x, _ := strconv.Unquote(a)
	y, _ := strconv.Unquote(b)
	return strings.Compare(x, y)
}

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
	switch {
	case len(names) > maxSwitch:
		sorted := slices.SortedFunc(slices.Values(d.Values), func(a, b ir.Value) int { return compareLiterals(d.Base, a.Literal, b.Literal) })
		names = names[:0]
		for _, v := range sorted {
			names = append(names, jen.Line().Id(v.Name))
		}
		list := "valuesOf" + d.Name
		w.add(comment(list+" is sorted."), jen.Var().Id(list).Op("=").Index().Id(d.Name).Values(append(names, jen.Line())...))
		known = []jen.Code{
			jen.List(jen.Id("_"), jen.Id("found")).Op(":=").Qual("slices", "BinarySearch").Call(jen.Id(list), jen.Id("v")),
			jen.Return(jen.Id("found")),
		}
	case len(names) == 1:
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
		jen.Return(jen.Qual(eventsImplPath, "DecodeLiteral").Call(jen.Id("b"), jen.Parens(jen.Op("*").String()).Parens(jen.Id("v")))))
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
		jen.Return(jen.Qual(eventsImplPath, "EncodeLiteral").Call(jen.String().Parens(jen.Id("v")))))
}
