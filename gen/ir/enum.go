package ir

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// enumValues returns the values that enum and const leave.
func (b *builder) enumValues(n *source.Node) []*source.Node {
	if c := n.Get("const"); c != nil {
		return []*source.Node{c}
	}
	return n.Get("enum").Items
}

// isEnum reports whether every variant is a const or enum, null variants aside: the way to write an
// enum whose values have descriptions.
func isEnum(variants []*source.Node) bool {
	some := false
	for _, v := range variants {
		if isNull(v) {
			continue
		}
		if v.Get("const") == nil && v.Get("enum") == nil {
			return false
		}
		some = true
	}
	return some
}

// enumeration is the shape of a closed list of values.
func (b *builder) enumeration(n *source.Node, values []*source.Node) shape {
	types, typeNull := typesOf(n)
	null := false
	var kept []*source.Node
	seen := map[string]bool{}
	for _, v := range values {
		if v.Kind == source.Null {
			null = null || typeNull || n.Get("type") == nil
			continue
		}
		if n.Get("type") != nil && !fits(v, types) {
			b.report(source.New("MCPE209", v.Range, "the value %s is not of type %s", v.JSON(), listed(types)))
			return shape{}
		}
		if text := canonical(v); !seen[text] { // 1 and 1.0 are one value
			seen[text] = true
			kept = append(kept, v)
		}
	}
	if len(kept) == 0 {
		return b.untyped(n, "the schema allows null alone")
	}
	base, ok := baseOf(kept)
	if !ok {
		b.report(source.New("MCPE209", kept[0].Range, "the values have no common Go type with constants").
			WithHint("use x-go-type: encoding/json.RawMessage, or values of one kind"))
		return shape{}
	}
	if base == Bool && len(kept) > 1 {
		return shape{kind: scalarShape, base: Bool, null: null}
	}
	return shape{kind: enumShape, base: base, values: kept, null: null}
}

func fits(v *source.Node, types []string) bool {
	if v.Kind == source.Number {
		return slices.Contains(types, "number") || slices.Contains(types, "integer") && isInteger(v.Text)
	}
	return slices.Contains(types, v.Kind.String())
}

// baseOf returns the scalar kind that holds every value.
func baseOf(values []*source.Node) (Kind, bool) {
	base := Kind(-1)
	for _, v := range values {
		var k Kind
		switch v.Kind {
		case source.String:
			k = String
		case source.Bool:
			k = Bool
		case source.Number:
			k = Float64
			if _, ok := int64Of(v.Text); ok {
				k = Int64
			} else if f, err := strconv.ParseFloat(v.Text, 64); err != nil || f == math.Trunc(f) {
				return 0, false // neither an int64 nor exactly a float64
			}
		default:
			return 0, false
		}
		switch {
		case base < 0 || base == Int64 && k == Float64:
			base = k
		case base == k || base == Float64 && k == Int64:
		default:
			return 0, false
		}
	}
	return base, true
}

// fillEnum declares a constant per value.
func (b *builder) fillEnum(d *Decl, sh *shape) {
	d.Base = sh.base
	for _, v := range sh.values {
		value := Value{JSON: v.JSON(), Literal: literal(v, sh.base), Name: d.Name + Suffix(v.Text)}
		prev := slices.IndexFunc(d.Values, func(w Value) bool { return w.Name == value.Name })
		if prev >= 0 {
			b.report(source.New("MCPE206", v.Range, "the values %s and %s of %s both become the Go name %s",
				d.Values[prev].JSON, value.JSON, d.Name, value.Name).
				WithRelated(sh.values[prev].Range, "the value %s is here", d.Values[prev].JSON).
				WithHint("give the schema x-go-type: string, or rename a value"))
			return
		}
		b.declare(b.names, value.Name, "the value "+string(value.JSON)+" of "+d.Name, v.Range)
		d.Values = append(d.Values, value)
	}
}

// literal is the Go literal of a scalar.
func literal(v *source.Node, base Kind) string {
	switch base {
	case String:
		return strconv.Quote(v.Text)
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

// canonical is the form in which two equal scalars have equal text.
func canonical(v *source.Node) string {
	raw := jsontext.Value(v.JSON())
	if raw.Canonicalize() != nil {
		return string(v.JSON())
	}
	return string(raw)
}

// matchValue returns the constant of d whose value is v.
func (d *Decl) matchValue(v *source.Node) (Value, bool) {
	for _, c := range d.Values {
		raw := jsontext.Value(slices.Clone([]byte(c.JSON)))
		if raw.Canonicalize() == nil && string(raw) == canonical(v) {
			return c, true
		}
	}
	return Value{}, false
}

// HasEmpty reports whether the empty string is a value of an enum of strings.
func (d *Decl) HasEmpty() bool {
	return slices.ContainsFunc(d.Values, func(v Value) bool { return string(v.JSON) == `""` })
}

// scalarDefault returns the Go literal of a default for a plain scalar type.
func scalarDefault(raw json.RawMessage, v *source.Node, k Kind) string {
	switch {
	case k == String && v.Kind == source.String, k == Bool && v.Kind == source.Bool:
		return literal(v, k)
	case k == Int64 && v.Kind == source.Number:
		if _, ok := int64Of(v.Text); ok {
			return literal(v, k)
		}
	case k == Float64 && v.Kind == source.Number && !strings.HasPrefix(string(raw), "-0"):
		return literal(v, k)
	}
	return ""
}
