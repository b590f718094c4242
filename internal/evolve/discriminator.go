package evolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// OpenAPI's discriminator does not constrain values, but readers choose the variant by it. The tags of a variant are
// the constants of its tag member, the entries of the mapping, or otherwise the last element of its $ref.

// A tagMap maps the tags of a union to its variants.
type tagMap struct {
	property string
	// order lists the tags in source order, and variants maps each tag to its variant.
	order    []string
	variants map[string]node
}

// tagMapOf returns the tags of the union in p that has a discriminator, if p has exactly one such union.
func tagMapOf(p place) (tagMap, bool) {
	var found []node
	for _, n := range p.views(schematree.Unconditional) {
		if property, _ := n.child("discriminator", "propertyName"); property.schema != nil && len(n.alternatives()) > 0 {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return tagMap{}, false
	}
	n := found[0]
	property, _ := n.child("discriminator", "propertyName")
	name, _ := property.schema.(string)
	d := tagMap{property: name, variants: map[string]node{}}
	mapping := map[string]string{}
	if m, ok := n.child("discriminator", "mapping"); ok {
		for tag, to := range m.object() {
			if s, ok := to.(string); ok {
				mapping[tag] = s
			}
		}
	}
	for _, a := range n.alternatives() {
		if inner, ok := tagMapOf(place{a}); ok && inner.property == name {
			for _, tag := range inner.order {
				d.add(tag, inner.variants[tag])
			}
			continue
		}
		for _, tag := range tagsOf(a, name, mapping) {
			d.add(tag, a)
		}
	}
	return d, len(d.order) > 0
}

func (d *tagMap) add(tag string, to node) {
	if _, known := d.variants[tag]; !known {
		d.order = append(d.order, tag)
		d.variants[tag] = to
	}
}

// tagsOf returns the tags of a variant as JSON texts.
func tagsOf(a node, property string, mapping map[string]string) []string {
	if values := (place{a}).listedMember(property); len(values) > 0 {
		return sortedKeys(values)
	}
	ref, _ := a.object()["$ref"].(string)
	target, resolved := a.resolve(ref)
	var tags []string
	for _, tag := range sortedKeys(mapping) {
		to := mapping[tag]
		same := ref != "" && (to == ref || to == schematree.LastToken(ref))
		if other, ok := a.resolve(to); ok && resolved && other.pointer == target.pointer {
			same = true
		}
		if same {
			tags = append(tags, canonicalText(tag))
		}
	}
	if len(tags) == 0 && ref != "" {
		tags = []string{canonicalText(schematree.LastToken(ref))}
	}
	return tags
}

// constantTags returns the tags of a union without a discriminator. The tags are the constant values of the member
// property.
func constantTags(p place, property string) (tagMap, bool) {
	d := tagMap{property: property, variants: map[string]node{}}
	variants, ok := expand(p)
	if !ok {
		return d, false
	}
	for _, v := range variants {
		if v.types()&schematree.Object == 0 {
			continue
		}
		values := v.listedMember(property)
		if len(values) == 0 || len(v) == 0 {
			return d, false
		}
		for _, tag := range sortedKeys(values) {
			d.add(tag, v[len(v)-1])
		}
	}
	return d, len(d.order) > 0
}

// listedMember returns the listed values of a member, whether or not it is required.
func (p place) listedMember(name string) map[string]any {
	variants, _ := expand(p)
	out := map[string]any{}
	for _, v := range variants {
		values := v.property(name).unionValues()
		if len(values) == 0 {
			return nil
		}
		maps.Copy(out, values)
	}
	return out
}

// alternatives returns the variants of the oneOf or anyOf of n.
func (n node) alternatives() []node {
	if list := n.list("oneOf"); len(list) > 0 {
		return list
	}
	return n.list("anyOf")
}

// compareTagged compares the variants with equal tags of two unions if the old union has a discriminator. Readers of
// the old schema select the variant only by its tag.
func (c *comparison) compareTagged(from, to place) *findings {
	if c.live {
		return nil
	}
	was, ok := tagMapOf(from)
	is, declared := tagMapOf(to)
	if c.backward {
		was, is, ok, declared = is, was, declared, ok
	}
	if !ok {
		return nil
	}
	found := newFindings()
	changed := func(format string, args ...any) *findings {
		found.add(Change{Feature: c.feature, Reason: fmt.Sprintf(format, args...), Rule: discriminatorChanged, Category: Wire})
		return found
	}
	if !declared {
		new := to
		if c.backward {
			new = from
		}
		if is, ok = constantTags(new, was.property); !ok {
			return changed("the discriminator %s is gone", was.property)
		}
	}
	if is.property != was.property {
		return changed("the discriminator was %s and is %s", was.property, is.property)
	}
	for _, tag := range was.order {
		before := was.variants[tag]
		after, kept := is.variants[tag]
		if !kept {
			if by := is.tagOf(before, was); by != "" {
				changed("the variant tagged %s is tagged %s now", tag, by)
			} else {
				changed("no variant is tagged %s any more", tag)
			}
			continue
		}
		if c.backward {
			before, after = after, before
		}
		found.addNested("", c.compare(place{before}, place{after}))
	}
	return found
}

// tagOf returns the tag that d adds for the old variant before, or "".
func (d tagMap) tagOf(before node, was tagMap) string {
	name := func(n node) string { ref, _ := n.object()["$ref"].(string); return schematree.LastToken(ref) }
	for _, tag := range d.order {
		after := d.variants[tag]
		if _, old := was.variants[tag]; old {
			continue
		}
		if name(before) != "" && name(before) == name(after) || before.closure() == after.closure() {
			return tag
		}
	}
	return ""
}

// unknownVariants returns the pointers of new variants if the old union has none of their tags. Readers keep values of
// such variants as JSON.
func unknownVariants(old, new place) map[string]bool {
	was, ok := tagMapOf(old)
	if !ok {
		return nil
	}
	is, ok := tagMapOf(new)
	if !ok {
		if is, ok = constantTags(new, was.property); !ok {
			return nil
		}
	}
	if is.property != was.property {
		return nil
	}
	out := map[string]bool{}
	for _, tag := range is.order {
		to := is.variants[tag].pointer
		_, known := was.variants[tag]
		if stranger, seen := out[to]; !seen || stranger {
			out[to] = !known
		}
	}
	return out
}

// containsAny reports whether any schema of p is in the set of pointers.
func (p place) containsAny(marked map[string]bool) bool {
	return slices.ContainsFunc(p, func(n node) bool { return marked[n.pointer] })
}
