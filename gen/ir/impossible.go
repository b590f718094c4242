package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// maxDepth bounds how deep the search for values without any goes.
const maxDepth = 20

// prune leaves out the variants that no value satisfies beside the rest of the schema, and says so:
// they are often what generators of schemas write for a case that cannot be. Where no variant is left
// the union stays as it is, which is an error of its own.
func (b *builder) prune(f *facts) {
	for i := range f.unions {
		u := &f.unions[i]
		var live, dead []*source.Node
		for _, v := range u.variants {
			if !isNull(v) && b.impossible(b.beside(f, *u, v), 0) {
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
				WithRelated(f.node.Range, "beside what is said here"))
		}
	}
}

// beside is a variant with everything that stands beside its union, other unions aside.
func (b *builder) beside(f *facts, u alternatives, v *source.Node) *source.Node {
	var all []*source.Node
	for _, p := range f.parts {
		all = append(all, b.without(p, "oneOf", "anyOf", "discriminator", "$ref", "allOf"))
	}
	return b.both(append(all, v)...)
}

// impossible reports whether certainly no value satisfies n. It reports nothing and makes no shapes,
// so that it may be asked about what is not used in the end.
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
	b.dead[n] = false // what leads back here is decided elsewhere
	is := b.hasNoValue(b.gather(n), depth)
	b.dead[n] = is
	return is
}

func (b *builder) hasNoValue(f *facts, depth int) bool {
	fits := func(v *source.Node) bool { return kindOf(v)&f.kinds != 0 }
	switch {
	case f.never != nil || f.kinds == 0 || f.listed && !slices.ContainsFunc(f.values, fits):
		return true
	case f.crossed() != nil:
		return true
	case f.kinds == kObject && b.lacksMember(f, depth):
		return true
	}
	return slices.ContainsFunc(f.unions, func(u alternatives) bool {
		return !slices.ContainsFunc(u.variants, func(v *source.Node) bool { return !b.impossible(b.beside(f, u, v), depth+1) })
	})
}

// lacksMember reports whether a required member can have no value.
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
