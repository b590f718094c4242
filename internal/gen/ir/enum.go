package ir

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// wrongType returns the diagnostic for a listed value that is of none of the declared types.
func wrongType(v *source.Node, types schematree.Types) source.Diagnostic {
	d := source.New("MCPE209", v.Range, "the value %s is not of type %s", v.JSON(), types)
	if types == schematree.String && v.Text != "" {
		return d.WithHint("quote it: %q", v.Text)
	}
	return d
}

// shapeOfEnum returns the shape of a closed list of values. number reports whether the schema's type allows any number.
// The Go type must then represent all numbers.
func (b *builder) shapeOfEnum(f *facts, values []*source.Node, null, number bool) shape {
	var kept []*source.Node
	seen := map[string]bool{}
	for _, v := range values {
		if v.Kind == source.Null {
			continue
		}
		if own := v.Parent; own != nil && own.Kind == source.Array && own.Parent != nil && own.Parent.Get("type") != nil && kindOf(v)&declaredKinds(own.Parent) == 0 {
			b.report(wrongType(v, declaredKinds(own.Parent)))
			return shape{}
		}
		if kindOf(v)&f.kinds == 0 {
			continue // another applicable schema excludes it
		}
		if text := valueKey(v); !seen[text] { // 1 and 1.0 are equal
			seen[text] = true
			kept = append(kept, v)
		}
	}
	if len(kept) == 0 {
		return b.rawShape(f.node, nil, nullAlone)
	}
	base := baseOf(kept, number)
	if base == Bool && len(kept) > 1 {
		return shape{kind: scalarShape, base: Bool, allowsNull: null}
	}
	return shape{kind: enumShape, base: base, values: kept, allowsNull: null}
}

// allowsFractions reports whether the type keywords of the schemas allow numbers that are not integers. It returns
// false if no schema has a type keyword.
func allowsFractions(parts ...*source.Node) bool {
	of, typed := schematree.AnyType, false
	for _, p := range parts {
		if p.Get("type") != nil {
			of, typed = of&declaredKinds(p), true
		}
	}
	return typed && of&schematree.Fraction != 0
}

// baseOf returns a scalar kind that can represent every value, or Literal if no scalar kind can. If number is set, the
// kind of numbers is Float64 even if all listed values are integers.
func baseOf(values []*source.Node, number bool) Kind {
	base := Kind(-1)
	for _, v := range values {
		k := Literal
		switch v.Kind {
		case source.String:
			k = String
		case source.Bool:
			k = Bool
		case source.Number:
			k = numberKind(v.Text, number)
		}
		switch {
		case base < 0 || base == Int64 && k == Float64:
			base = k
		case base == k || base == Float64 && k == Int64:
		default:
			return Literal
		}
	}
	return base
}

// numberKind returns Int64, Float64, or Literal if neither can represent the number. If number is set, it does not
// return Int64.
func numberKind(text string, number bool) Kind {
	if _, ok := int64Of(text); ok && !number {
		return Int64
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || f == math.Trunc(f) && !number {
		return Literal
	}
	return Float64
}

// losesPrecision reports whether converting a number to float64 changes its value.
func losesPrecision(v *source.Node) bool {
	if v.Kind != source.Number {
		return false
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return true
	}
	text, err := json.Marshal(f)
	if err != nil {
		return true
	}
	same, err := eventsimpl.Literal(text)
	return err != nil || same != valueKey(v)
}

// fillEnum declares a constant for each value.
func (b *builder) fillEnum(d *Decl, sh *shape) {
	d.Base, d.Open = sh.base, sh.isOpen
	d.Values = make([]Value, 0, len(sh.values))
	byName := make(map[string]int, len(sh.values))
	stems := make(map[string]int, len(sh.values))
	for _, v := range sh.values {
		stems[trimmed(v.Text)]++
	}
	for i, v := range sh.values {
		name := constantName(v)
		if v.Kind == source.String && explicitName(v) == "" && stems[trimmed(v.Text)] > 1 { // _a becomes UnderscoreA next to a
			name = spellOutSuffix(v.Text)
		}
		value := Value{JSON: v.JSON(), Literal: goLiteral(v, sh.base), Name: constantOfType(d.Name, name)}
		if prev, taken := byName[value.Name]; taken {
			b.report(source.New("MCPE206", v.Range, "the values %s and %s of %s both become the Go name %s",
				d.Values[prev].JSON, value.JSON, d.Name, value.Name).
				WithRelated(sh.values[prev].Range, "the value %s is here", d.Values[prev].JSON).
				WithHint("name the constants with x-enum-varnames next to enum"))
			return
		}
		byName[value.Name] = i
		b.declareName(b.names, value.Name, "the value "+string(value.JSON)+" of "+d.Name, v.Range)
		d.Values = append(d.Values, value)
	}
}

// constantOfType joins the name of a type and a suffix to the name of a constant. It inserts an underscore between two
// digits. For example, value 0 of S45 is S45_0, which does not collide with S450.
func constantOfType(name, add string) string {
	if last := name[len(name)-1]; add != "" && '0' <= last && last <= '9' && '0' <= add[0] && add[0] <= '9' {
		return name + "_" + add
	}
	return name + add
}

// explicitName returns the name that the author chose for a value's constant, or "". It is the value's name in
// x-enum-varnames (a keyword of OpenAPI generators), or the x-go-name next to a const.
func explicitName(v *source.Node) string {
	switch list := v.Parent; {
	case list == nil || list.Parent == nil:
	case list.Kind == source.Array:
		if names, i := list.Parent.ItemsAt("x-enum-varnames"), v.Index(); i >= 0 && i < len(names) {
			return names[i].Text
		}
	case list.Parent.Kind == source.Array:
		return nameSegment(list, "")
	}
	return ""
}

// constantName returns the part of a constant's name that follows the name of its type. It is the name that the author
// chose, or the result of [Suffix].
func constantName(v *source.Node) string {
	if name := explicitName(v); name != "" {
		return name
	}
	if !isScalar(v) {
		return Suffix(strings.Map(func(r rune) rune {
			if strings.ContainsRune(`{}[]":,`, r) {
				return ' '
			}
			return r
		}, string(v.JSON())))
	}
	return Suffix(v.Text)
}

// goLiteral returns a scalar as a Go literal.
func goLiteral(v *source.Node, base Kind) string {
	switch base {
	case String:
		return strconv.Quote(v.Text)
	case Literal:
		return strconv.Quote(valueKey(v))
	case Int64:
		n, _ := int64Of(v.Text)
		return strconv.FormatInt(n, 10)
	case Float64:
		if n, ok := int64Of(v.Text); ok {
			return strconv.FormatInt(n, 10)
		}
	}
	return v.Text
}

// valueKey returns a map key for a value. Equal values have equal keys.
func valueKey(v *source.Node) string {
	text, err := eventsimpl.Literal(v.JSON())
	if err != nil {
		return string(v.JSON())
	}
	return text
}

// constantFor returns the constant of the enum d that represents v.
func (d *Decl) constantFor(v *source.Node) (Value, bool) {
	for _, c := range d.Values {
		if text, err := eventsimpl.Literal(c.JSON); err == nil && text == valueKey(v) {
			return c, true
		}
	}
	return Value{}, false
}

// EmptyIsAbsent reports whether a field of this type represents an absent member by the empty string. This is the case
// for closed string enums without an empty value.
func (d *Decl) EmptyIsAbsent() bool {
	return d.Form == Enum && !d.Open && (d.Base == String || d.Base == Literal) &&
		!slices.ContainsFunc(d.Values, func(v Value) bool { return string(v.JSON) == `""` })
}

// scalarDefault returns the default of a scalar type as a Go literal.
func scalarDefault(raw json.RawMessage, v *source.Node, k Kind) string {
	switch {
	case k == String && v.Kind == source.String, k == Bool && v.Kind == source.Bool:
		return goLiteral(v, k)
	case k == Int64 && v.Kind == source.Number:
		if _, ok := int64Of(v.Text); ok {
			return goLiteral(v, k)
		}
	case k == Float64 && v.Kind == source.Number && !strings.HasPrefix(string(raw), "-0"):
		return goLiteral(v, k)
	}
	return ""
}

// enumBases maps the kinds of enums to the words of the model.
var enumBases = map[Kind]string{String: "string", Int64: "number", Float64: "number", Bool: "boolean", Literal: "json"}

// enumType returns an enum, or a const if there is only one value.
func enumType(sh *shape) model.Type {
	if len(sh.values) == 1 && !sh.isOpen {
		return model.Type{Kind: model.Const, Value: sh.values[0].JSON()}
	}
	t := model.Type{Kind: model.Enum, Base: enumBases[sh.base], AnyOther: sh.isOpen}
	for _, v := range sh.values {
		value := model.Value{Value: v.JSON()}
		if at := v.Parent; at != nil && at.Kind == source.Object && at.Get("const") == v {
			value.Description = docOf(at).Text
		}
		t.Values = append(t.Values, value)
	}
	return t
}
