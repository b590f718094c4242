// Package schematree describes the structure of JSON Schema. It provides the roles of keywords ([Keyword]), the direct
// subschemas of a schema ([Each]), the targets of references ([Resolve]), the schemas that apply to one value ([Views])
// and the allowed types ([Types]). It also copies schemas and rewrites their references ([Copy]).
//
// The functions accept any representation of JSON that implements [Value]: the generator's nodes have positions, and
// the server compares decoded values. Start with [Dialect.Keyword] and [Each].
package schematree

import (
	"iter"
	"slices"
)

// A Value is a JSON value in any representation.
type Value[V any] interface {
	// Find returns a named member, or false if the value is not an object or lacks the member.
	Find(name string) (V, bool)
	// Elements returns the elements of an array, or false if the value is not an array.
	Elements() ([]V, bool)
	// All yields the members of an object in a fixed order, and nothing for other values.
	All() iter.Seq2[string, V]
	// Value returns the value that encoding/json decodes with UseNumber.
	Value() any
	// Identity returns a comparable value that is unique to the schema within the document.
	Identity() any
}

// A Document resolves references.
type Document[V any] interface {
	// Target returns the schema that a keyword of n, such as $ref, refers to, or false if it does not resolve.
	Target(n V, keyword string) (V, bool)
	// RefAlone reports whether the siblings of a $ref in n are ignored, as in draft-07.
	RefAlone(n V) bool
}

// Each calls f for the direct subschemas of n, in the order of its members. name is the subschema's name below its
// keyword, or empty if it is unnamed.
func Each[V Value[V]](d *Dialect, n V, f func(keyword, name string, inner V)) {
	for key, v := range n.All() {
		if k := d.keywords[key]; k.Holds != Nothing {
			Held(k, v, func(name string, inner V) { f(key, name, inner) })
		}
	}
}

// Held calls f for each schema in v, the value of a keyword.
func Held[V Value[V]](k Keyword, v V, f func(name string, inner V)) {
	list, isList := v.Elements()
	switch {
	case k.Holds == List || k.Holds == SchemaOrList && isList:
		for _, inner := range list {
			f("", inner)
		}
	case k.Holds == Schema || k.Holds == SchemaOrList:
		f("", v)
	case k.Holds == Map || k.Holds == SchemasOrNames:
		for name, inner := range v.All() {
			if _, names := inner.Elements(); !names || k.Holds == Map {
				f(name, inner)
			}
		}
	}
}

// Applied calls f for the schemas that the keywords of n apply to the same value as n. These are the targets of
// references and the schemas in the keywords. If the siblings of a $ref are ignored, it calls f only for the target.
func Applied[V Value[V]](doc Document[V], n V, f func(V), keywords ...string) {
	_, refers := n.Find("$ref")
	alone := refers && doc.RefAlone(n)
	for _, keyword := range keywords {
		v, ok := n.Find(keyword)
		k := Any.keywords[keyword]
		switch {
		case !ok || alone && keyword != "$ref":
		case k.Refers:
			if to, found := doc.Target(n, keyword); found {
				f(to)
			}
		default:
			Held(k, v, func(_ string, inner V) { f(inner) })
		}
	}
}

var (
	// References lists the keywords that refer to schemas.
	References = []string{"$ref", "$dynamicRef", "$recursiveRef"}
	// Unconditional lists the keywords that apply subschemas to every value of a schema.
	Unconditional = slices.Concat(References, []string{"allOf"})
	// Alternative lists the keywords that may apply subschemas to a value of a schema.
	Alternative = slices.Concat(Unconditional, []string{"anyOf", "oneOf"})
)

// MaxViews limits the number of schemas for one value.
const MaxViews = 1_000

// Views returns n and the schemas that the keywords apply to the same value, at any depth. It returns at most
// [MaxViews] schemas, without duplicates.
func Views[V Value[V]](doc Document[V], n V, keywords []string) []V {
	all := []V{n}
	seen := make(map[any]bool) // stays empty for most schemas, to which no other applies
	var visit func(V)
	visit = func(part V) {
		seen[n.Identity()] = true
		if id := part.Identity(); !seen[id] && len(all) < MaxViews {
			seen[id] = true
			all = append(all, part)
			Applied(doc, part, visit, keywords...)
		}
	}
	Applied(doc, n, visit, keywords...)
	return all
}
