package golang

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

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
	var more []string
	if d.EmptyIsAbsent() {
		more = append(more, "An optional member of this type is absent when it is empty.")
	}
	w.typeDoc(d, what, more...)
	w.line("type ", d.Name, " ", w.typeCode(&ir.Type{Kind: d.Base}))
	w.doc("The values of " + d.Name + ".")
	w.line("const (")
	var names []string
	for _, v := range d.Values {
		w.line(v.Name, " ", d.Name, " = ", v.Literal)
		names = append(names, v.Name)
	}
	w.line(")")
	known := []string{"switch v {", "case " + strings.Join(names, ", ") + ":", "return true", "}", "return false"}
	switch {
	case len(names) > maxSwitch:
		list := "valuesOf" + d.Name
		w.doc(list + " is sorted.")
		w.line("var ", list, " = []", d.Name, "{")
		for _, v := range slices.SortedFunc(slices.Values(d.Values), func(a, b ir.Value) int { return compareLiterals(d.Base, a.Literal, b.Literal) }) {
			w.line(v.Name, ",")
		}
		w.line("}")
		known = []string{"_, found := " + w.qual("slices", "BinarySearch") + "(" + list + ", v)", "return found"}
	case len(names) == 1:
		known = []string{"return v == " + names[0]}
	}
	w.doc("Known reports whether v is one of the values that the schema lists.")
	w.function("(v "+d.Name+") Known() bool", known...)
	if d.Base == ir.Literal {
		w.literalMethods(d)
	}
}

// literalMethods writes the JSON methods of an enum whose values have no common Go type.
func (w *writer) literalMethods(d *ir.Decl) {
	w.method("(v *"+d.Name+") UnmarshalJSON(b []byte) error", "return "+w.qual(eventsImplPath, "DecodeLiteral")+"(b, (*string)(v))")
	w.method("(v "+d.Name+") MarshalJSON() ([]byte, error)", "return "+w.qual(eventsImplPath, "EncodeLiteral")+"(string(v))")
}
