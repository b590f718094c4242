package evolve

import (
	"maps"
	"slices"
)

// A gain is a set of values that a schema accepts and its former version rejected: values with a value of the types
// at a path of members.
type gain struct {
	path []string
	of   types
}

// widened reports whether each alternative of the oneOf of n accepts all values of its counterpart in m, and new
// values only if no other alternative accepts them. Then a value that matches one alternative of m matches one of n.
func widened(m, n node) bool {
	before, after := m.list("oneOf"), n.list("oneOf")
	if len(before) != len(after) {
		return false
	}
	left := maxGained
	for i := range after {
		gains, ok := gained(before[i], after[i], &left)
		if !ok {
			return false
		}
		for k, other := range after {
			if k != i && slices.ContainsFunc(gains, func(g gain) bool { return !(place{other}).refuses(g.path, g.of) }) {
				return false
			}
		}
	}
	return true
}

// maxGained limits the pairs of members that one call compares, because definitions may be recursive.
const maxGained = 50

// gained returns the values that b accepts in addition to those of a. It returns false unless b accepts all values of
// a and differs only by additional types.
func gained(a, b node, left *int) ([]gain, bool) {
	if *left--; *left < 0 {
		return nil, false
	}
	if a.closure() == b.closure() {
		return nil, true
	}
	if g, ok := gainedVariants(a, b); ok {
		return g, true
	}
	a, b = a.followed(), b.followed()
	if a.but("type", "properties").closure() != b.but("type", "properties").closure() {
		return nil, false
	}
	before, after := (place{a}).declared(), (place{b}).declared()
	if before&^after != 0 || !slices.Equal(a.names("properties"), b.names("properties")) {
		return nil, false
	}
	var gains []gain
	if more := after &^ before; more != 0 {
		gains = append(gains, gain{of: more})
	}
	for _, name := range a.names("properties") {
		was, _ := a.child("properties", name)
		is, _ := b.child("properties", name)
		inner, ok := gained(was, is, left)
		if !ok {
			return nil, false
		}
		for _, g := range inner {
			gains = append(gains, gain{append([]string{name}, g.path...), g.of})
		}
	}
	return gains, true
}

// gainedVariants is like [gained] for a schema b that is a choice between a and others.
func gainedVariants(a, b node) ([]gain, bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		alternatives := b.list(keyword)
		if len(alternatives) == 0 || len(b.but(keyword).object()) > 0 {
			continue
		}
		i := slices.IndexFunc(alternatives, func(n node) bool { return n.closure() == a.closure() })
		if i < 0 {
			return nil, false
		}
		var more types
		for _, n := range slices.Delete(slices.Clone(alternatives), i, i+1) {
			more |= typesOf(place{n})
		}
		return []gain{{of: more}}, keyword == "anyOf" || more&typesOf(place{a}) == 0
	}
	return nil, false
}

// typesOf returns the types of all variants of a place.
func typesOf(p place) types {
	variants, ok := expand(p)
	if !ok {
		return anyType
	}
	return unionTypes(variants)
}

// followed returns the target of n if n is only a reference, and otherwise n.
func (n node) followed() node {
	for range maxVariants {
		ref, ok := n.object()["$ref"].(string)
		if !ok || !n.doc.draft07 && len(n.but("$ref").object()) > 0 {
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

// but returns n without annotations and some keywords.
func (n node) but(keywords ...string) node {
	rest := maps.Clone(n.object())
	maps.DeleteFunc(rest, func(key string, _ any) bool {
		return annotates(key) || slices.Contains(keywords, key)
	})
	n.schema = rest
	return n
}

// refuses reports whether p rejects all values with a value of the types at the path.
func (p place) refuses(path []string, of types) bool {
	variants, ok := expand(p)
	return ok && !slices.ContainsFunc(variants, func(v place) bool {
		if len(path) == 0 {
			return v.types()&of != 0
		}
		member := v.property(path[0])
		return v.types()&object != 0 && !forbidden(member) && !member.refuses(path[1:], of)
	})
}
