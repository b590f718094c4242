package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// maxDepth is the maximum recursion depth of isImpossible.
const maxDepth = 20

// dropImpossible drops variants that contradict the rest of the schema, and reports them. Schema generators often write
// such variants. If no variant would remain, dropImpossible does not change the union, which causes a separate error.
func (b *builder) dropImpossible(f *facts) {
	for i := range f.unions {
		u := &f.unions[i]
		var live, dead []*source.Node
		for _, v := range u.variants {
			if !isNull(v) && b.isImpossible(b.withSiblings(f, v), 0) {
				dead = append(dead, v)
			} else {
				live = append(live, v)
			}
		}
		if len(dead) == 0 || len(live) == 0 {
			continue
		}
		u.variants, u.dropped = live, dead
		for _, v := range dead {
			if v.Kind != source.Object || b.reportedVariants[v] {
				continue
			}
			b.reportedVariants[v] = true
			b.report(source.New("MCPE216", v.Range, "this variant of %s can have no value and is left out", u.keyword).
				WithRelated(f.node.Range, "next to the schema here"))
		}
	}
}

// withSiblings merges a variant with the keywords next to its union, except other unions.
func (b *builder) withSiblings(f *facts, v *source.Node) *source.Node {
	var all []*source.Node
	for _, p := range f.parts {
		all = append(all, b.withoutKeywords(p, "oneOf", "anyOf", "discriminator", "$ref", "allOf"))
	}
	return b.allOf(append(all, v)...)
}

// isImpossible reports whether no value can satisfy n. It does not detect all such schemas. Unlike shape, it does not
// report diagnostics or cache shapes.
func (b *builder) isImpossible(n *source.Node, depth int) bool {
	if n.Kind != source.Object {
		return !n.True()
	}
	if known, ok := b.unsatisfiable[n]; ok {
		return known
	}
	if depth > maxDepth {
		return false
	}
	b.unsatisfiable[n] = false // another call decides about references back to n
	is := b.hasNoValue(b.gatherFacts(n), depth)
	b.unsatisfiable[n] = is
	return is
}

func (b *builder) hasNoValue(f *facts, depth int) bool {
	fits := func(v *source.Node) bool { return kindOf(v)&f.kinds != 0 }
	switch {
	case f.falsePart != nil || f.kinds == 0 || f.listed && !slices.ContainsFunc(f.values, fits):
		return true
	case f.boundConflict() != nil:
		return true
	case f.kinds == schematree.Object && b.lacksMember(f, depth):
		return true
	}
	return slices.ContainsFunc(f.unions, func(u alternatives) bool {
		return !slices.ContainsFunc(u.variants, func(v *source.Node) bool { return !b.isImpossible(b.withSiblings(f, v), depth+1) })
	})
}

// lacksMember reports whether no value is valid for a required member.
func (b *builder) lacksMember(f *facts, depth int) bool {
	for _, p := range f.parts {
		for _, r := range p.ItemsAt("required") {
			if b.isImpossible(b.memberSchema(f, r.Text), depth+1) {
				return true
			}
		}
	}
	return false
}
