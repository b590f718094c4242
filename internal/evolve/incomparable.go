package evolve

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// checkComparable calls report for changes that this package cannot compare. These are changed keywords such as not and
// if, and changed references to other documents.
func checkComparable(p pair, report func(string, string)) {
	narrow, wide := p.new, p.old
	if p.backward {
		narrow, wide = p.old, p.new
	}
	if p.feature == InputSchema || p.backward {
		eachAdded(constraints, wide, narrow, func(keyword string, changed bool) {
			if changed {
				report("", keyword+" has changed in a way that cannot be compared")
			}
		})
	}
	before, after := p.old.externalRefs(), p.new.externalRefs()
	for _, ref := range sortedKeys(after) {
		if !before[ref] {
			report("", "refers to "+ref+", which is not in the schema")
		}
	}
}

// checkAmbiguous calls report if a oneOf in arguments changed and its variants can overlap, because a value that
// matches two variants is invalid. EVOL-2 does not treat this as tightening.
func checkAmbiguous(u union, report func(string)) {
	if !u.live && u.feature == InputSchema && len(u.new) > 0 && addsOverlap(u.from, u.to) {
		report("oneOf has changed, and what matches two of its variants is not valid; give each a required property with another const")
	}
}

// addsOverlap reports whether the place to has a new oneOf with alternatives that can overlap.
func addsOverlap(from, to place) bool {
	known := map[string]bool{}
	for _, n := range oneOfs(from) {
		c, _ := n.child("oneOf")
		known[c.closure()] = true
	}
	return slices.ContainsFunc(oneOfs(to), func(n node) bool {
		c, _ := n.child("oneOf")
		return !known[c.closure()] && !areDisjoint(n) && !slices.ContainsFunc(oneOfs(from), func(m node) bool { return isWidened(m, n) })
	})
}

// oneOfs returns the schemas with a oneOf of several alternatives that apply to a value of p.
func oneOfs(p place) []node {
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

// areDisjoint reports whether no value matches two alternatives in the oneOf of n.
func areDisjoint(n node) bool {
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
			if slices.ContainsFunc(seen, func(w place) bool { return !haveNoCommonValue(v, w) }) {
				return false
			}
		}
		seen = append(seen, variants...)
	}
	return true
}

// haveNoCommonValue reports whether no value is valid for both v and w. They can differ in type or in their listed
// values. One can require a member that the other forbids, or they can require a member with different values.
func haveNoCommonValue(v, w place) bool {
	common := v.types() & w.types()
	if common == 0 {
		return true
	}
	if values, ok := listedValues(v); ok {
		if others, ok := listedValues(w); ok {
			return len(difference(values, others)) == len(values)
		}
	}
	if common != schematree.Object {
		return false
	}
	forbids := func(p, q place) bool {
		return slices.ContainsFunc(sortedKeys(p.required()), func(name string) bool { return isForbidden(q.property(name)) })
	}
	if forbids(v, w) || forbids(w, v) {
		return true
	}
	for name := range v.required() {
		a, b := v.tagValues(name), w.tagValues(name)
		if len(a) > 0 && len(b) > 0 && len(difference(a, b)) == len(a) {
			return true
		}
	}
	return false
}
