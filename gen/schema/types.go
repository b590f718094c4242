package schema

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// kinds is a set of JSON types; date-times are told apart from other strings.
type kinds uint16

const (
	kNull kinds = 1 << iota
	kBoolean
	kNumber
	kString
	kDateTime
	kArray
	kObject
	// kUnknown tells that the schema leaves the type open.
	kUnknown
)

const anyString = kString | kDateTime

// maxViews bounds how many schemas are consulted about one value.
const maxViews = 1_000

// views returns the schemas that apply to the same value as n: n itself and what it reaches by $ref
// and through allOf, anyOf and oneOf.
func (s *Set) views(n *source.Node) []*source.Node {
	var all []*source.Node
	seen := make(map[*source.Node]bool)
	var visit func(*source.Node)
	visit = func(n *source.Node) {
		if n == nil || seen[n] || len(all) > maxViews {
			return
		}
		seen[n] = true
		all = append(all, n)
		if n.Get("$ref") != nil {
			if t, d := s.Resolve(n); d == nil {
				visit(t.Node)
			}
			if p := s.places[n]; p != nil && p.root.dialect.refAlone {
				return
			}
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			if list := n.Get(key); list != nil {
				for _, item := range list.Items {
					visit(item)
				}
			}
		}
	}
	visit(n)
	return all
}

const everything = kNull | kBoolean | kNumber | anyString | kArray | kObject | kUnknown

// kindsOf returns the JSON types that the schema allows, with kUnknown where it does not say.
func (s *Set) kindsOf(n *source.Node) kinds {
	if n == nil || n.Kind != source.Object {
		return everything
	}
	if k, ok := s.kinds[n]; ok {
		return k
	}
	// A schema that leads back to itself is an error of its own; here it only must not loop.
	s.kinds[n] = everything
	k := everything
	alone := false
	if n.Get("$ref") != nil {
		if t, d := s.Resolve(n); d == nil {
			k &= s.kindsOf(t.Node)
		}
		p := s.places[n]
		alone = p != nil && p.root.dialect.refAlone
	}
	if !alone {
		k &= ownKinds(n)
		if list := n.Get("allOf"); list != nil {
			for _, item := range list.Items {
				k &= s.kindsOf(item)
			}
		}
		for _, key := range []string{"anyOf", "oneOf"} {
			if list := n.Get(key); list != nil && len(list.Items) > 0 {
				var union kinds
				for _, item := range list.Items {
					union |= s.kindsOf(item)
				}
				k &= union
			}
		}
	}
	s.kinds[n] = k
	return k
}

// ownKinds is what type, enum, const and format of n itself say.
func ownKinds(n *source.Node) kinds {
	k := everything
	if t := n.Get("type"); t != nil {
		of := kindNamed(t.Text)
		for _, item := range t.Items {
			of |= kindNamed(item.Text)
		}
		k &= of
	}
	var values []*source.Node
	if c := n.Get("const"); c != nil {
		values = append(values, c)
	}
	if e := n.Get("enum"); e != nil {
		values = append(values, e.Items...)
	}
	if len(values) > 0 {
		var of kinds
		for _, v := range values {
			of |= kindNamed(v.Kind.String())
		}
		k &= of
	}
	// A string without a format may be meant as a date-time by a schema around this one.
	switch f := n.Get("format"); {
	case f == nil:
	case f.Text == "date-time":
		k &^= kString
	default:
		k &^= kDateTime
	}
	return k
}

func kindNamed(name string) kinds {
	switch name {
	case "null":
		return kNull
	case "boolean":
		return kBoolean
	case "number", "integer":
		return kNumber
	case "string":
		return anyString
	case "array":
		return kArray
	case "object":
		return kObject
	}
	return 0
}

// String lists the types for messages.
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
