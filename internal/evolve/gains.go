package evolve

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A gain is a set of values that a schema accepts and its former version rejected. Such a value has one of the types at
// a path of members.
type gain struct {
	path []string
	of   schematree.Types
}

// isWidened reports whether each alternative in the oneOf of n accepts all values of its counterpart in m. An
// alternative can accept new values only if no other alternative accepts them. Then a value that matches exactly one
// alternative of m also matches exactly one of n.
func isWidened(m, n node) bool {
	before, after := m.list("oneOf"), n.list("oneOf")
	if len(before) != len(after) {
		return false
	}
	left := maxGained
	for i := range after {
		gains, ok := newValues(before[i], after[i], &left)
		if !ok {
			return false
		}
		for k, other := range after {
			if k != i && slices.ContainsFunc(gains, func(g gain) bool { return !(place{other}).rejects(g.path, g.of) }) {
				return false
			}
		}
	}
	return true
}

// maxGained limits the pairs of members that one call compares, because definitions may be recursive.
const maxGained = 50

// newValues returns the values that b accepts and a rejects. It returns false unless b accepts all values of a and
// differs only by additional types.
func newValues(a, b node, left *int) ([]gain, bool) {
	if *left--; *left < 0 {
		return nil, false
	}
	if a.closure() == b.closure() {
		return nil, true
	}
	if g, ok := newVariantValues(a, b); ok {
		return g, true
	}
	a, b = a.dereferenced(), b.dereferenced()
	if a.withoutKeywords("type", "properties").closure() != b.withoutKeywords("type", "properties").closure() {
		return nil, false
	}
	before, after := (place{a}).declaredTypes(), (place{b}).declaredTypes()
	if before&^after != 0 || !slices.Equal(a.sortedKeys("properties"), b.sortedKeys("properties")) {
		return nil, false
	}
	var gains []gain
	if more := after &^ before; more != 0 {
		gains = append(gains, gain{of: more})
	}
	for _, name := range a.sortedKeys("properties") {
		was, _ := a.child("properties", name)
		is, _ := b.child("properties", name)
		inner, ok := newValues(was, is, left)
		if !ok {
			return nil, false
		}
		for _, g := range inner {
			gains = append(gains, gain{append([]string{name}, g.path...), g.of})
		}
	}
	return gains, true
}

// newVariantValues is like [newValues] for a schema b that is an anyOf or oneOf of a and other schemas.
func newVariantValues(a, b node) ([]gain, bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		alternatives := b.list(keyword)
		if len(alternatives) == 0 || len(b.withoutKeywords(keyword).object()) > 0 {
			continue
		}
		i := slices.IndexFunc(alternatives, func(n node) bool { return n.closure() == a.closure() })
		if i < 0 {
			return nil, false
		}
		var more schematree.Types
		for _, n := range slices.Delete(slices.Clone(alternatives), i, i+1) {
			more |= typesOf(place{n})
		}
		return []gain{{of: more}}, keyword == "anyOf" || more&typesOf(place{a}) == 0
	}
	return nil, false
}

// typesOf returns the types of all variants of a place.
func typesOf(p place) schematree.Types {
	variants, ok := expand(p)
	if !ok {
		return schematree.AnyType
	}
	return unionTypes(variants)
}

// dereferenced returns the target of n if n is only a reference, and otherwise n.
func (n node) dereferenced() node {
	for range maxVariants {
		ref, ok := n.object()["$ref"].(string)
		if !ok || !n.doc.draft07 && len(n.withoutKeywords("$ref").object()) > 0 {
			break
		}
		target, ok := n.resolve(ref)
		if !ok {
			break
		}
		n = target
	}
	return n
}

// withoutKeywords returns a copy of n without annotations and the given keywords.
func (n node) withoutKeywords(keywords ...string) node {
	rest := maps.Clone(n.object())
	maps.DeleteFunc(rest, func(key string, _ any) bool {
		return isAnnotation(key) || slices.Contains(keywords, key)
	})
	n.schema = rest
	return n
}

// rejects reports whether p rejects all values that have one of the types at the path.
func (p place) rejects(path []string, of schematree.Types) bool {
	variants, ok := expand(p)
	return ok && !slices.ContainsFunc(variants, func(v place) bool {
		if len(path) == 0 {
			return v.types()&of != 0
		}
		member := v.property(path[0])
		return v.types()&schematree.Object != 0 && !isForbidden(member) && !member.rejects(path[1:], of)
	})
}
