package evolve

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// compareMembers compares the members that two variants allow.
func (c *comparison) compareMembers(from, to place, found *findings) {
	first, second := from.properties(), to.properties()
	for _, name := range first {
		below := wire.Pointer("properties", name)
		switch {
		case slices.Contains(second, name):
			found.addNested(below, c.compare(from.property(name), to.property(name)))
		case c.backward:
			found.addNested(below, c.compareAdded(from, to, name))
		}
	}
	if c.backward || c.feature == InputSchema && !c.live {
		for _, name := range second {
			if !slices.Contains(first, name) {
				found.addNested(wire.Pointer("properties", name), c.compareClaimed(from, to, name))
			}
		}
	}
	c.comparePatterns(from, to, found)
	// A separate rule reports that an object was closed. Opening an object is never a change.
	if !from.isClosed() && !to.isClosed() && (c.checksAcceptance() || len(from.additional()) > 0) {
		found.addNested("/additionalProperties", c.compare(from.additional(), to.additional()))
	}
	if kept := to.patternMapSchema(); c.backward && to.isClosed() && !from.isClosed() && len(kept) > 0 {
		if changes := c.compare(from.additional(), kept); changes.hasWireChange() {
			found.addNested("/additionalProperties", changes)
		}
	}
	if names := to.subschemas("propertyNames"); len(names) > 0 && c.checksAcceptance() {
		text := node{pointer: "name", schema: map[string]any{"type": "string"}, doc: from.document()}
		found.addNested("/propertyNames", c.compare(append(place{text}, from.subschemas("propertyNames")...), names))
	}
}

// singleChange returns findings with one STRICT change.
func (c *comparison) singleChange(reason, rule string) *findings {
	found := newFindings()
	found.add(Change{Feature: c.feature, Reason: reason, Rule: rule, Category: Strict})
	return found
}

// compareAdded compares a field that only the new payload declares. The old schema for undeclared members applies to
// it. A reader that stores such members in a map must be able to decode the new field.
func (c *comparison) compareAdded(from, to place, name string) *findings {
	if others := to.property(name); !isForbidden(others) {
		return c.compare(from.property(name), others)
	}
	if kept := to.patternMapSchema(); len(kept) > 0 {
		if changes := c.compare(from.property(name), kept); changes.hasWireChange() {
			return changes
		}
	}
	return c.singleChange("field added to a closed object", fieldAdded)
}

// compareClaimed compares a member that only the second schema declares. The first schema for undeclared members
// applies to it. If the first schema does not have one, a caller may have sent an argument with that name. In payloads,
// the member is a removed field, or a field of other variants of a union.
func (c *comparison) compareClaimed(from, to place, name string) *findings {
	others := from.property(name)
	changes := c.compare(others, to.property(name))
	if changes.isEmpty() || len(others) > 0 || c.backward {
		return changes
	}
	return c.singleChange("callers could already send an argument of this name, with any value", nameClaimed)
}

func (c *comparison) comparePatterns(from, to place, found *findings) {
	all := map[string]bool{}
	for _, n := range slices.Concat(from, to) {
		for _, pattern := range n.sortedKeys("patternProperties") {
			all[pattern] = true
		}
	}
	for _, pattern := range sortedKeys(all) {
		first, _ := from.pattern(pattern, !c.live)
		second, kept := to.pattern(pattern, false)
		below := wire.Pointer("patternProperties", pattern)
		if c.backward && !kept && to.isClosed() {
			if kept := to.patternMapSchema(); len(kept) > 0 {
				if changes := c.compare(first, kept); changes.hasWireChange() {
					found.addNested(below, changes)
					continue
				}
			}
			found.addNested(below, c.singleChange("field added to a closed object", fieldAdded))
			continue
		}
		found.addNested(below, c.compare(first, second))
	}
}

// A tagging distinguishes the variants of a union, either by the values of one required member or by members that only
// one variant has and requires.
type tagging struct {
	property string
	values   map[string]bool
	own      []string
}

// taggingOf returns the tagging of the object variants. The zero tagging excludes nothing.
func taggingOf(variants []place) tagging {
	objects := objects(variants)
	if len(objects) < 2 {
		return tagging{}
	}
	for _, name := range sortedKeys(objects[0].required()) {
		t := tagging{property: name, values: map[string]bool{}}
		distinct := !slices.ContainsFunc(objects, func(v place) bool {
			values := v.tagValues(name)
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

func objects(variants []place) []place {
	return slices.DeleteFunc(slices.Clone(variants), func(v place) bool { return v.types()&schematree.Object == 0 })
}

// keptTagging returns the tagging of the first variants with the values of the second variants. It returns the zero
// tagging unless all object variants in second list their values.
func keptTagging(first, second []place) tagging {
	t := tagging{property: taggingOf(first).property, values: map[string]bool{}}
	left := objects(second)
	if t.property == "" || len(left) == 0 {
		return tagging{}
	}
	for _, v := range left {
		values := v.tagValues(t.property)
		if len(values) == 0 {
			return tagging{}
		}
		for value := range values {
			t.values[value] = true
		}
	}
	return t
}

// ownMembers returns the members that exactly one variant has and requires, or nil if any variant lacks such a member.
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

// memberNames returns the members that a variant describes or requires.
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

// tagValues returns the listed values of a required member, or nil if it has no listed values.
func (p place) tagValues(name string) map[string]any {
	if p.types() != schematree.Object || !p.required()[name] {
		return nil
	}
	return p.property(name).unionValues()
}

// unionValues returns the listed values of all variants of p, or nil if any variant does not list its values.
func (p place) unionValues() map[string]any {
	variants, _ := expand(p)
	out := map[string]any{}
	for _, v := range variants {
		values, limited := v.values()
		if !limited {
			return nil
		}
		maps.Copy(out, values)
	}
	return out
}

// excludes reports whether the union lacks the tag of v, or v is an object without any distinguishing member. Readers
// store such an object as raw JSON.
func (t tagging) excludes(v place) bool {
	if t.property == "" {
		has := memberNames(v)
		return len(t.own) > 0 && v.types() == schematree.Object && !slices.ContainsFunc(t.own, func(name string) bool { return has[name] })
	}
	values := v.tagValues(t.property)
	for value := range values {
		if t.values[value] {
			return false
		}
	}
	return len(values) > 0
}

// patternMapSchema returns the schema of the map in which a reader stores members that match the patterns of a closed
// object. Such a map must be able to decode any other member. If the schemas of the patterns differ, the reader stores
// raw JSON.
func (p place) patternMapSchema() place {
	var out place
	for _, n := range p {
		for _, pattern := range n.sortedKeys("patternProperties") {
			if c, ok := n.child("patternProperties", pattern); ok {
				out = append(out, c)
			}
		}
	}
	for i := range out {
		if !haveSameGoType(out[0], out[i]) {
			return nil
		}
	}
	return out[:min(1, len(out))]
}

// haveSameGoType reports whether two schemas are equal or are scalars of the same type.
func haveSameGoType(a, b node) bool {
	of := (place{a}).types()
	return of&^(schematree.Scalars|schematree.Null) == 0 && of == (place{b}).types() || a.closure() == b.closure()
}
