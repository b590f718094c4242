package schema

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// kinds is a set of JSON types. It distinguishes date-times from other strings, but not integers from other numbers.
type kinds uint16

const (
	kNull    = kinds(schematree.Null)
	kBoolean = kinds(schematree.Boolean)
	kNumber  = kinds(schematree.Number)
	kString  = kinds(schematree.String)
	kArray   = kinds(schematree.Array)
	kObject  = kinds(schematree.Object)

	kDateTime = kinds(schematree.AnyType) + 1
	// kUnknown indicates that the schema does not restrict the type.
	kUnknown = 2 * kDateTime

	anyString  = kString | kDateTime
	everything = kinds(schematree.AnyType) | kDateTime | kUnknown
)

func kindsFrom(t schematree.Types) kinds {
	k := kinds(t)
	if k&kNumber != 0 {
		k |= kNumber
	}
	if k&kString != 0 {
		k |= kDateTime
	}
	return k
}

// kindsOf returns the JSON types that the schema allows. It includes kUnknown if the schema does not restrict the type.
func (s *Set) kindsOf(n *source.Node) kinds {
	if n == nil || n.Kind != source.Object {
		return everything
	}
	if k, ok := s.kinds[n]; ok {
		return k
	}
	// checkLoops reports a schema that leads back to itself. Here it must only not recurse forever.
	s.kinds[n] = everything
	k := everything
	if n.Get("$ref") == nil || !s.RefAlone(n) {
		k = ownKinds(n)
	}
	schematree.Applied(s, n, func(part *source.Node) { k &= s.kindsOf(part) }, schematree.Unconditional...)
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var union kinds
		listed := false
		schematree.Applied(s, n, func(variant *source.Node) { union, listed = union|s.kindsOf(variant), true }, keyword)
		if listed {
			k &= union
		}
	}
	s.kinds[n] = k
	return k
}

// ownKinds returns the types that the type, enum, const and format of n allow.
func ownKinds(n *source.Node) kinds {
	k := everything
	if n.Get("type") != nil {
		k = kindsFrom(schematree.Declared(n))
	}
	var values []*source.Node
	if c := n.Get("const"); c != nil {
		values = append(values, c)
	}
	values = append(values, n.ItemsAt("enum")...)
	if len(values) > 0 {
		var of schematree.Types
		for _, v := range values {
			of |= schematree.TypeOf(v.Value())
		}
		k &= kindsFrom(of)
	}
	// Without a format, another schema can still require date-time.
	switch f := n.Get("format"); {
	case f == nil:
	case f.Text == "date-time":
		k &^= kString
	default:
		k &^= kDateTime
	}
	return k
}

// String returns the types for use in messages.
func (k kinds) String() string {
	if k&kUnknown != 0 {
		return "any type"
	}
	var names []string
	for _, t := range []struct {
		bits kinds
		name string
	}{{kBoolean, "boolean"}, {kNumber, "number"}, {kArray, "array"}, {kObject, "object"}, {kNull, "null"}} {
		if k&t.bits != 0 {
			names = append(names, t.name)
		}
	}
	switch k & anyString {
	case kDateTime:
		names = append(names, "date-time")
	case kString, anyString:
		names = append(names, "string")
	}
	if len(names) == 0 {
		return "no type"
	}
	return strings.Join(names, " or ")
}
