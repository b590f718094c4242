package evolve

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// incomparable reports changes without an order: keywords such as not and if, and references that leave the schema.
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

// ambiguous reports a changed oneOf of arguments whose variants may overlap, because a value that matches two of them
// is not valid. EVOL-2 does not treat this as tightening.
func ambiguous(u union, report func(string)) {
	if !u.live && u.feature == InputSchema && len(u.new) > 0 && overlaps(u.from, u.to) {
		report("oneOf has changed, and what matches two of its variants is not valid; give each a required property with another const")
	}
}

// overlaps reports whether to has a new oneOf whose alternatives may overlap.
func overlaps(from, to place) bool {
	known := map[string]bool{}
	for _, n := range exclusive(from) {
		c, _ := n.child("oneOf")
		known[c.closure()] = true
	}
	return slices.ContainsFunc(exclusive(to), func(n node) bool {
		c, _ := n.child("oneOf")
		return !known[c.closure()] && !disjoint(n) && !slices.ContainsFunc(exclusive(from), func(m node) bool { return widened(m, n) })
	})
}

// exclusive returns the schemas with a oneOf that apply to a value of p.
func exclusive(p place) []node {
	return slices.DeleteFunc(p.views(schematree.Alternative), func(n node) bool { return len(n.list("oneOf")) < 2 })
}

// views returns the schemas of p and all schemas that the keywords apply to the same value.
func (p place) views(keywords []string) []node {
	var all []node
	for _, n := range p {
		all = append(all, schematree.Views(resolver{}, n, keywords)...)
	}
	return all
}

// disjoint reports whether no value matches two alternatives of the oneOf of n.
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

// apart reports whether v and w have no common value. They may differ by type, by their listed values, by a required
// member that the other forbids, or by a required member without a common value.
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
	forbids := func(p, q place) bool {
		return slices.ContainsFunc(sortedKeys(p.required()), func(name string) bool { return forbidden(q.property(name)) })
	}
	if forbids(v, w) || forbids(w, v) {
		return true
	}
	for name := range v.required() {
		a, b := v.tag(name), w.tag(name)
		if len(a) > 0 && len(b) > 0 && len(without(a, b)) == len(a) {
			return true
		}
	}
	return false
}
