package evolve

import (
	"maps"
	"slices"
)

// incomparable finds what changed and has no order: keywords like not and if, and references that
// lead out of the schema.
func incomparable(p pair, report func(string, string)) {
	narrow, wide := p.new, p.old
	if p.backward {
		narrow, wide = p.old, p.new
	}
	if p.feature == InputSchema || p.backward {
		added(constraints, wide, narrow, func(keyword string, changed bool) {
			if changed {
				report("", keyword+" has changed in a way that cannot be compared")
			}
		})
	}
	before, after := p.old.foreign(), p.new.foreign()
	for _, ref := range slices.Sorted(mapKeys(after)) {
		if !before[ref] {
			report("", "refers to "+ref+", which is not in the schema")
		}
	}
}

// ambiguous finds a oneOf of arguments that was changed and whose variants may overlap: what
// matches two of them is not valid. It is no tightening in the sense of EVOL-2.
func ambiguous(u union, report func(string)) {
	if !u.live && u.feature == InputSchema && len(u.new) > 0 && overlaps(u.from, u.to) {
		report("oneOf has changed, and what matches two of its variants is not valid; give each a required property with another const")
	}
}

// overlaps reports whether to has a oneOf that from does not have and whose alternatives may overlap.
func overlaps(from, to place) bool {
	known := map[string]bool{}
	for _, n := range exclusive(from, nil) {
		c, _ := n.child("oneOf")
		known[c.closure(map[string]bool{})] = true
	}
	return slices.ContainsFunc(exclusive(to, nil), func(n node) bool {
		c, _ := n.child("oneOf")
		return !known[c.closure(map[string]bool{})] && !disjoint(n)
	})
}

// exclusive returns the schemas with a oneOf that apply to a value of p.
func exclusive(p place, within []string) []node {
	var out []node
	for _, n := range p {
		if slices.Contains(within, n.pointer) {
			continue
		}
		inner := append(slices.Clip(within), n.pointer)
		if len(n.list("oneOf")) > 1 {
			out = append(out, n)
		}
		for _, keyword := range references {
			if ref, ok := n.object()[keyword].(string); ok {
				if target, ok := n.resolve(ref); ok {
					out = append(out, exclusive(place{target}, inner)...)
				}
			}
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			out = append(out, exclusive(n.list(keyword), inner)...)
		}
	}
	return out
}

// disjoint reports whether no value can match two alternatives of the oneOf of n.
func disjoint(n node) bool {
	rest := maps.Clone(n.object())
	delete(rest, "oneOf")
	around := n
	around.schema = rest
	var seen []place
	for _, a := range n.list("oneOf") {
		variants, ok := expand(place{around, a})
		if !ok {
			return false
		}
		for _, v := range variants {
			if slices.ContainsFunc(seen, func(w place) bool { return !apart(v, w) }) {
				return false
			}
		}
		seen = append(seen, variants...)
	}
	return true
}

// apart reports whether v and w have no value in common: by type, by their listed values, or by a
// required member whose values are apart.
func apart(v, w place) bool {
	common := v.types() & w.types()
	if common == 0 {
		return true
	}
	if values, ok := listed(v); ok {
		if others, ok := listed(w); ok {
			return len(without(values, others)) == len(values)
		}
	}
	if common != object {
		return false
	}
	for name := range v.required() {
		a, b := v.tag(name), w.tag(name)
		if len(a) > 0 && len(b) > 0 && len(without(a, b)) == len(a) {
			return true
		}
	}
	return false
}
