package evolve

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// members compares the members that two variants allow.
func (c *comparison) members(from, to place, found *findings) {
	first, second := from.properties(), to.properties()
	for _, name := range first {
		below := wire.Pointer("properties", name)
		switch {
		case slices.Contains(second, name):
			found.put(below, c.compare(from.property(name), to.property(name)))
		case c.backward:
			found.put(below, c.added(from, to, name))
		}
	}
	if c.backward || c.feature == InputSchema && !c.live {
		for _, name := range second {
			if !slices.Contains(first, name) {
				found.put(wire.Pointer("properties", name), c.claimed(from, to, name))
			}
		}
	}
	c.patterns(from, to, found)
	// Closing is a rule of its own; what opens is never a change.
	if !from.closed() && !to.closed() && (c.contains() || len(from.additional()) > 0) {
		found.put("/additionalProperties", c.compare(from.additional(), to.additional()))
	}
	if kept := to.keptAs(); c.backward && to.closed() && !from.closed() && len(kept) > 0 {
		if changes := c.compare(from.additional(), kept); changes.breaks() {
			found.put("/additionalProperties", changes)
		}
	}
	if names := to.under("propertyNames"); len(names) > 0 && c.contains() {
		text := node{pointer: "name", schema: map[string]any{"type": "string"}, doc: from.document()}
		found.put("/propertyNames", c.compare(append(place{text}, from.under("propertyNames")...), names))
	}
}

// single is one change at the place.
func (c *comparison) single(reason, rule string) *findings {
	found := newFindings()
	found.add(Change{Feature: c.feature, Reason: reason, Rule: rule, Category: Strict})
	return found
}

// added compares a field that only the new payload declares with what the old one said of all other
// members. A reader that keeps them in a map must be able to decode the new field too.
func (c *comparison) added(from, to place, name string) *findings {
	if others := to.property(name); !forbidden(others) {
		return c.compare(from.property(name), others)
	}
	if kept := to.keptAs(); len(kept) > 0 {
		if changes := c.compare(from.property(name), kept); changes.breaks() {
			return changes
		}
	}
	return c.single("field added to a closed object", fieldAdded)
}

// claimed compares a member that only the second schema declares with what the first says of all
// others. Where that is nothing, a caller may have sent an argument of that name. In payloads it is a
// field that was removed, or one that only other variants of a union have.
func (c *comparison) claimed(from, to place, name string) *findings {
	others := from.property(name)
	changes := c.compare(others, to.property(name))
	if changes.none() || len(others) > 0 || c.backward {
		return changes
	}
	return c.single("callers could already send an argument of this name, with any value", nameClaimed)
}

func (c *comparison) patterns(from, to place, found *findings) {
	all := map[string]bool{}
	for _, n := range slices.Concat(from, to) {
		for _, pattern := range n.names("patternProperties") {
			all[pattern] = true
		}
	}
	for _, pattern := range slices.Sorted(mapKeys(all)) {
		first, _ := from.pattern(pattern, !c.live)
		second, kept := to.pattern(pattern, false)
		below := wire.Pointer("patternProperties", pattern)
		if c.backward && !kept && to.closed() {
			if kept := to.keptAs(); len(kept) > 0 {
				if changes := c.compare(first, kept); changes.breaks() {
					found.put(below, changes)
					continue
				}
			}
			found.put(below, c.single("field added to a closed object", fieldAdded))
			continue
		}
		found.put(below, c.compare(first, second))
	}
}

// A tagging is what tells the variants of a union apart: the values of one required member, or else for each variant
// the members that it alone has and requires.
type tagging struct {
	property string
	values   map[string]bool
	own      []string
}

// tags finds the tagging of the object variants; the zero tagging excludes nothing.
func tags(variants []place) tagging {
	objects := slices.DeleteFunc(slices.Clone(variants), func(v place) bool { return v.types()&object == 0 })
	if len(objects) < 2 {
		return tagging{}
	}
	for _, name := range slices.Sorted(mapKeys(objects[0].required())) {
		t := tagging{property: name, values: map[string]bool{}}
		distinct := !slices.ContainsFunc(objects, func(v place) bool {
			values := v.tag(name)
			for value := range values {
				if t.values[value] {
					return true
				}
				t.values[value] = true
			}
			return len(values) == 0
		})
		if distinct {
			return t
		}
	}
	return tagging{own: ownMembers(objects)}
}

// ownMembers returns the members that one variant requires and no other has, nil where a variant has none.
func ownMembers(objects []place) []string {
	count := map[string]int{}
	for _, v := range objects {
		for name := range memberNames(v) {
			count[name]++
		}
	}
	var own []string
	for _, v := range objects {
		before := len(own)
		for name := range v.required() {
			if count[name] == 1 {
				own = append(own, name)
			}
		}
		if len(own) == before {
			return nil
		}
	}
	return own
}

// memberNames are the members that a variant describes or requires.
func memberNames(v place) map[string]bool {
	all := map[string]bool{}
	for _, name := range v.properties() {
		all[name] = true
	}
	for name := range v.required() {
		all[name] = true
	}
	return all
}

// tag returns the values that the required member called name may have, nil when they are not listed.
func (p place) tag(name string) map[string]any {
	if p.types() != object || !p.required()[name] {
		return nil
	}
	variants, ok := expand(p.property(name))
	if !ok {
		return nil
	}
	out := map[string]any{}
	for _, v := range variants {
		values, limited := v.values()
		if !limited {
			return nil
		}
		for text, value := range values {
			out[text] = value
		}
	}
	return out
}

// excludes reports whether the tag of v is not among those of the union, or v is an object that has no member of its
// variants: readers keep such an object as it is.
func (t tagging) excludes(v place) bool {
	if t.property == "" {
		has := memberNames(v)
		return len(t.own) > 0 && v.types() == object && !slices.ContainsFunc(t.own, func(name string) bool { return has[name] })
	}
	values := v.tag(t.property)
	for value := range values {
		if t.values[value] {
			return false
		}
	}
	return len(values) > 0
}

// keptAs is the schema of the map in which a reader keeps members whose names match the patterns of a
// closed object: it must decode any other member too. Patterns whose schemas differ are kept as JSON.
func (p place) keptAs() place {
	var out place
	for _, n := range p {
		for _, pattern := range n.names("patternProperties") {
			if c, ok := n.child("patternProperties", pattern); ok {
				out = append(out, c)
			}
		}
	}
	for i := range out {
		if !alike(out[0], out[i]) {
			return nil
		}
	}
	return out[:min(1, len(out))]
}

// alike reports whether two schemas lead to one Go type: scalars of the same type, or equal ones.
func alike(a, b node) bool {
	of := (place{a}).types()
	return of&^(scalars|null) == 0 && of == (place{b}).types() || a.closure(map[string]bool{}) == b.closure(map[string]bool{})
}
