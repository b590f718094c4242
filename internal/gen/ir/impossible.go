package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// maxDepth limits the depth of the search for schemas without values.
const maxDepth = 20

// prune drops variants that contradict the rest of the schema, and reports them. Schema generators often write such
// variants for impossible cases. If all variants are contradictory, prune does not change the union, which causes a
// separate error.
func (b *builder) prune(f *facts) {
	for i := range f.unions {
		u := &f.unions[i]
		var live, dead []*source.Node
		for _, v := range u.variants {
			if !isNull(v) && b.impossible(b.withSiblings(f, *u, v), 0) {
				dead = append(dead, v)
			} else {
				live = append(live, v)
			}
		}
		if len(dead) == 0 || len(live) == 0 {
			continue
		}
		u.variants, u.dead = live, dead
		for _, v := range dead {
			if v.Kind != source.Object || b.left[v] {
				continue
			}
			b.left[v] = true
			b.report(source.New("MCPE216", v.Range, "this variant of %s can have no value and is left out", u.keyword).
				WithRelated(f.node.Range, "next to the schema here"))
		}
	}
}

// withSiblings combines a variant with the sibling keywords of its union, except other unions.
func (b *builder) withSiblings(f *facts, u alternatives, v *source.Node) *source.Node {
	var all []*source.Node
	for _, p := range f.parts {
		all = append(all, b.without(p, "oneOf", "anyOf", "discriminator", "$ref", "allOf"))
	}
	return b.allOf(append(all, v)...)
}

// impossible reports whether no value can satisfy n. It may return false for some impossible schemas. It reports no
// diagnostics and creates no shapes.
func (b *builder) impossible(n *source.Node, depth int) bool {
	if n.Kind != source.Object {
		return !n.True()
	}
	if known, ok := b.dead[n]; ok {
		return known
	}
	if depth > maxDepth {
		return false
	}
	b.dead[n] = false // another call decides about references back to n
	is := b.hasNoValue(b.gather(n), depth)
	b.dead[n] = is
	return is
}

func (b *builder) hasNoValue(f *facts, depth int) bool {
	fits := func(v *source.Node) bool { return kindOf(v)&f.kinds != 0 }
	switch {
	case f.never != nil || f.kinds == 0 || f.listed && !slices.ContainsFunc(f.values, fits):
		return true
	case f.crossing() != nil:
		return true
	case f.kinds == kObject && b.lacksMember(f, depth):
		return true
	}
	return slices.ContainsFunc(f.unions, func(u alternatives) bool {
		return !slices.ContainsFunc(u.variants, func(v *source.Node) bool { return !b.impossible(b.withSiblings(f, u, v), depth+1) })
	})
}

// lacksMember reports whether a required member has no valid value.
func (b *builder) lacksMember(f *facts, depth int) bool {
	for _, p := range f.parts {
		for _, r := range itemsOf(p.Get("required")) {
			if b.impossible(b.memberSchema(f, r.Text), depth+1) {
				return true
			}
		}
	}
	return false
}
