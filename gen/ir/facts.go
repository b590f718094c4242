package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// facts is what all schemas that apply to one value say together: the schema itself, what its $ref
// names, and what its allOf holds, at any depth.
type facts struct {
	// node is the schema as it is written.
	node *source.Node
	// parts are the schema objects that apply, in the order in which they are written.
	parts []*source.Node
	// kinds are the types that type, enum and const of the parts leave.
	kinds kinds
	// clash is the part that left no type, never a schema false among the parts.
	clash, never *source.Node
	// values are what enum and const leave; listed tells that there is such a list.
	values []*source.Node
	listed bool
	unions []alternatives
	// branches are the schemas that apply under a condition.
	branches []branch
}

// alternatives are the variants of one oneOf or anyOf.
type alternatives struct {
	part     *source.Node
	keyword  string
	variants []*source.Node
	// dead are the variants that were left out because no value satisfies them.
	dead []*source.Node
}

// A branch is a schema that applies to some values only, and the keyword that says so.
type branch struct {
	keyword string
	node    *source.Node
}

// maxParts bounds how many schemas are merged into one.
const maxParts = 1000

// gather collects the facts about the values of n.
func (b *builder) gather(n *source.Node) *facts {
	if f := b.facts[n]; f != nil {
		return f
	}
	f := &facts{node: n, kinds: anyKind}
	b.facts[n] = f
	b.visit(f, n, map[*source.Node]bool{})
	return f
}

func (b *builder) visit(f *facts, n *source.Node, seen map[*source.Node]bool) {
	if n.Kind != source.Object {
		if !n.True() {
			f.never = n
		}
		return
	}
	if seen[n] || len(f.parts) > maxParts {
		return
	}
	seen[n] = true
	added := false
	for _, m := range n.Members {
		switch m.Key {
		case "$ref":
			target, d := b.set.Resolve(n)
			if d != nil {
				b.report(*d)
				continue
			}
			b.visit(f, target.Node, seen)
			if b.set.RefAlone(n) {
				return
			}
		case "allOf":
			for _, item := range m.Value.Items {
				b.visit(f, item, seen)
			}
		default:
			if !added && !annotating[m.Key] {
				added = true
				b.add(f, n)
			}
		}
	}
}

// add takes in what one schema object says by itself.
func (b *builder) add(f *facts, n *source.Node) {
	f.parts = append(f.parts, n)
	left := f.kinds & written(n)
	list, listed := listOf(n)
	if listed {
		var of kinds
		for _, v := range list {
			of |= kindOf(v)
		}
		left &= of
		f.meet(list)
	}
	if left == 0 && f.kinds != 0 && f.clash == nil {
		f.clash = n
	}
	f.kinds = left
	for _, k := range []string{"oneOf", "anyOf"} {
		if v := n.Get(k); v != nil {
			f.unions = append(f.unions, alternatives{part: n, keyword: k, variants: v.Items})
		}
	}
	for _, k := range []string{"if", "then", "else", "not"} {
		if v := n.Get(k); v != nil && (k == "not" || n.Get("if") != nil) {
			f.branches = append(f.branches, branch{k, v})
		}
	}
	for _, k := range []string{"dependentSchemas", "dependencies"} {
		for _, m := range membersOf(n.Get(k)) {
			if m.Value.Kind == source.Object {
				f.branches = append(f.branches, branch{k, m.Value})
			}
		}
	}
}

// listOf returns the values that enum and const of one schema object leave.
func listOf(n *source.Node) ([]*source.Node, bool) {
	c, e := n.Get("const"), n.Get("enum")
	switch {
	case c == nil && e == nil:
		return nil, false
	case c == nil:
		return e.Items, true
	case e == nil:
		return []*source.Node{c}, true
	}
	return slices.DeleteFunc(slices.Clone(e.Items), func(v *source.Node) bool { return canonical(v) != canonical(c) }), true
}

// meet keeps the values that are on both lists; where all are kept, in the order of the newer one.
func (f *facts) meet(list []*source.Node) {
	if f.listed {
		list = slices.DeleteFunc(slices.Clone(list), func(v *source.Node) bool {
			return !slices.ContainsFunc(f.values, func(w *source.Node) bool { return canonical(v) == canonical(w) })
		})
	}
	f.values, f.listed = list, true
}

// get returns the value of a keyword in the first part that has it.
func (f *facts) get(keyword string) *source.Node {
	for _, p := range f.parts {
		if v := p.Get(keyword); v != nil {
			return v
		}
	}
	return nil
}

// requires reports whether the member name must be there.
func (f *facts) requires(name string) bool {
	return slices.ContainsFunc(f.parts, func(p *source.Node) bool {
		return slices.ContainsFunc(itemsOf(p.Get("required")), func(r *source.Node) bool { return r.Text == name })
	})
}

// both returns a schema for the values of all nodes: the one that says something, or one that holds
// them in an allOf. The same nodes give the same schema, so that recursion ends.
func (b *builder) both(nodes ...*source.Node) *source.Node {
	var kept []*source.Node
	for _, n := range nodes {
		switch {
		case n.Kind != source.Object && !n.True():
			return n
		case saysNothing(n) || slices.Contains(kept, n):
		default:
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return nodes[0]
	}
	if len(kept) == 1 {
		return kept[0]
	}
	key := identity(kept)
	if n := b.joined[key]; n != nil {
		return n
	}
	n := &source.Node{Kind: source.Object, Range: kept[0].Range}
	for _, k := range []string{"title", "description", "deprecated", "default", "x-go-name"} {
		for _, from := range kept {
			if m := from.Member(k); m != nil {
				n.Members = append(n.Members, *m)
				break
			}
		}
	}
	n.Members = append(n.Members, source.Member{Key: "allOf", KeyRange: n.Range, Value: &source.Node{Kind: source.Array, Range: n.Range, Items: kept}})
	b.joined[key], b.origin[n] = n, kept[0]
	return n
}

// without returns the schema that p is but for some keywords.
func (b *builder) without(p *source.Node, keywords ...string) *source.Node {
	key := identity([]*source.Node{p}) + listed(keywords)
	if n := b.joined[key]; n != nil {
		return n
	}
	n := &source.Node{Kind: source.Object, Range: p.Range}
	for _, m := range p.Members {
		if !slices.Contains(keywords, m.Key) {
			n.Members = append(n.Members, m)
		}
	}
	b.joined[key], b.origin[n] = n, p
	return n
}

// saysNothing reports whether n is true, {} or annotations alone.
func saysNothing(n *source.Node) bool {
	return n.True() || n.Kind == source.Object && !slices.ContainsFunc(n.Members, func(m source.Member) bool { return !annotating[m.Key] })
}
