package golang

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// maxSwitch is the maximum number of values in a switch. The compile time of a switch grows faster than linearly.
const maxSwitch = 300

// compareLiterals compares two Go literals by the values that they represent.
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

// declareEnum declares an enum type, its method Known, and a constant for each value.
func (f *file) declareEnum(d *ir.Decl) {
	what := d.Role + "; decoding keeps values that the schema does not list, see Known"
	if d.Base == ir.Literal {
		what = d.Role + ", the JSON text of a value; decoding keeps values that the schema does not list, see Known"
	}
	var more []string
	if d.EmptyIsAbsent() {
		more = append(more, "An optional member of this type is absent when it is empty.")
	}
	f.typeDoc(d, what, more...)
	f.Type().Id(d.Name).Add(f.typeCode(&ir.Type{Kind: d.Base}))
	f.addDoc("The values of " + d.Name + ".")
	f.Const().DefsFunc(func(g *jen.Group) {
		for _, v := range d.Values {
			g.Id(v.Name).Id(d.Name).Op("=").Add(constantCode(v.Literal))
		}
	})
	f.addKnown(d)
	if d.Base == ir.Literal {
		f.addLiteralMethods(d)
	}
}

// addKnown adds the method Known to an enum. If the enum has many values, the method searches a sorted list.
func (f *file) addKnown(d *ir.Decl) {
	v := jen.Id("v")
	var body []jen.Code
	switch values := d.Values; {
	case len(values) > maxSwitch:
		list := "valuesOf" + d.Name
		f.addDoc(list + " is sorted.")
		sorted := slices.SortedFunc(slices.Values(values), func(a, b ir.Value) int { return compareLiterals(d.Base, a.Literal, b.Literal) })
		f.Var().Id(list).Op("=").Index().Id(d.Name).Add(multiline(valueNames(sorted)...))
		body = []jen.Code{
			jen.List(jen.Id("_"), jen.Id("found")).Op(":=").Qual("slices", "BinarySearch").Call(jen.Id(list), v),
			jen.Return(jen.Id("found")),
		}
	case len(values) == 1:
		body = []jen.Code{jen.Return(jen.Add(v).Op("==").Id(values[0].Name))}
	default:
		body = []jen.Code{
			jen.Switch(v).Block(jen.Case(valueNames(values)...).Block(jen.Return(jen.True()))),
			jen.Return(jen.False()),
		}
	}
	f.addDoc("Known reports whether v is one of the values that the schema lists.")
	f.startMethod("v", jen.Id(d.Name), "Known").Params().Bool().Block(body...)
}

// valueNames returns the constant names of the values as code.
func valueNames(values []ir.Value) []jen.Code {
	names := make([]jen.Code, len(values))
	for i, v := range values {
		names[i] = jen.Id(v.Name)
	}
	return names
}

// addLiteralMethods adds the JSON methods to an enum whose values have no common Go type.
func (f *file) addLiteralMethods(d *ir.Decl) {
	f.Line()
	f.addUnmarshalJSON(d.Name, jen.Qual(eventsImplPath, "DecodeLiteral").Call(jen.Id("b"), convertPointer(jen.String(), "v")))
	f.Line()
	f.addMarshalJSON(d.Name, jen.Return(jen.Qual(eventsImplPath, "EncodeLiteral").Call(jen.String().Parens(jen.Id("v")))))
}
