package ir

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// facts combines all schemas that apply to a value. These are a schema, the target of its $ref, and the schemas in its
// allOf, recursively.
type facts struct {
	// node is the schema in the event file.
	node *source.Node
	// parts lists the schema objects that apply to the value, in source order.
	parts []*source.Node
	// kinds is the set of JSON types that type, enum and const of the parts allow.
	kinds schematree.Types
	// clashingPart is the part that excluded the last type. falsePart is a part with the schema false, if present.
	clashingPart, falsePart *source.Node
	// values lists the values that enum and const allow. listed reports whether a part has enum or const.
	values []*source.Node
	listed bool
	// properties lists the members in the properties of the parts.
	properties []source.Member
	unions     []alternatives
	// branches lists the schemas that apply only to some values.
	branches []branch
}

// alternatives contains the variants of a oneOf or anyOf.
type alternatives struct {
	part     *source.Node
	keyword  string
	variants []*source.Node
	// dropped lists the dropped variants, which no value satisfies.
	dropped []*source.Node
}

// A branch is a schema that applies only to some values, such as the value of if or then.
type branch struct {
	keyword string
	node    *source.Node
}

// gatherFacts collects the facts about the values of n.
func (b *builder) gatherFacts(n *source.Node) *facts {
	if f := b.facts[n]; f != nil {
		return f
	}
	f := &facts{node: n, kinds: schematree.AnyType}
	b.facts[n] = f
	b.visit(f, n, map[*source.Node]bool{})
	return f
}

func (b *builder) visit(f *facts, n *source.Node, seen map[*source.Node]bool) {
	if n.Kind != source.Object {
		if !n.True() {
			f.falsePart = n
		}
		return
	}
	if seen[n] || len(f.parts) > schematree.MaxViews {
		return
	}
	seen[n] = true
	added := n.Get("$ref") != nil && b.set.RefAlone(n) // siblings of the $ref are ignored
	for _, m := range n.Members {
		if m.Key == "$ref" || m.Key == "allOf" {
			schematree.Applied(b.set, n, func(part *source.Node) { b.visit(f, part, seen) }, m.Key)
		} else if !added && !isAnnotation(m.Key) {
			added = true
			b.add(f, n)
		}
	}
}

// add merges the keywords of a schema object into the facts.
func (b *builder) add(f *facts, n *source.Node) {
	f.parts = append(f.parts, n)
	if own := slices.Clip(n.MembersAt("properties")); len(f.properties) == 0 {
		f.properties = own
	} else {
		f.properties = append(f.properties, own...)
	}
	left := f.kinds & declaredKinds(n)
	list, listed := ownValues(n)
	if listed {
		var of schematree.Types
		for _, v := range list {
			of |= kindOf(v)
		}
		left &= of
		f.intersect(list)
	}
	if left == 0 && f.kinds != 0 && f.clashingPart == nil {
		f.clashingPart = n
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
		for _, m := range n.MembersAt(k) {
			if m.Value.Kind == source.Object {
				f.branches = append(f.branches, branch{k, m.Value})
			}
		}
	}
}

// ownValues returns the values in the enum and const of a schema object.
func ownValues(n *source.Node) ([]*source.Node, bool) {
	c, e := n.Get("const"), n.Get("enum")
	switch {
	case c == nil && e == nil:
		return nil, false
	case c == nil:
		return e.Items, true
	case e == nil:
		return []*source.Node{c}, true
	}
	return slices.DeleteFunc(slices.Clone(e.Items), func(v *source.Node) bool { return valueKey(v) != valueKey(c) }), true
}

// intersect removes the values that are not in list. The result has the order of list.
func (f *facts) intersect(list []*source.Node) {
	if f.listed {
		list = slices.DeleteFunc(slices.Clone(list), func(v *source.Node) bool {
			return !slices.ContainsFunc(f.values, func(w *source.Node) bool { return valueKey(v) == valueKey(w) })
		})
	}
	f.values, f.listed = list, true
}

// keyword returns the value of a keyword from the first part that has it.
func (f *facts) keyword(keyword string) *source.Node {
	for _, p := range f.parts {
		if v := p.Get(keyword); v != nil {
			return v
		}
	}
	return nil
}

// variants returns the variants of all unions.
func (f *facts) variants() []*source.Node {
	var all []*source.Node
	for _, u := range f.unions {
		all = append(all, u.variants...)
	}
	return all
}

// requires reports whether a part requires the member with the given name.
func (f *facts) requires(name string) bool {
	return slices.ContainsFunc(f.parts, func(p *source.Node) bool {
		return slices.ContainsFunc(p.ItemsAt("required"), func(r *source.Node) bool { return r.Text == name })
	})
}

// allOf returns a schema for the values that satisfy all nodes. It is an allOf of the nodes, or the only node with
// constraints. Equal arguments have the same result, so recursion terminates.
func (b *builder) allOf(nodes ...*source.Node) *source.Node {
	var kept []*source.Node
	for _, n := range nodes {
		switch {
		case n.Kind != source.Object && !n.True():
			return n
		case isUnconstrained(n) || slices.Contains(kept, n):
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
	return b.derived(identity(kept), kept[0], func() (members []source.Member) {
		for _, k := range []string{"title", "description", "deprecated", "default", "x-go-name"} {
			for _, from := range kept {
				if m := from.Member(k); m != nil {
					members = append(members, *m)
					break
				}
			}
		}
		return append(members, listOf("allOf", kept...))
	})
}

// withoutKeywords returns a copy of p without the given keywords.
func (b *builder) withoutKeywords(p *source.Node, keywords ...string) *source.Node {
	return b.derived(identity([]*source.Node{p})+strings.Join(keywords, " or "), p, func() []source.Member {
		return slices.DeleteFunc(slices.Clone(p.Members), func(m source.Member) bool { return slices.Contains(keywords, m.Key) })
	})
}

// derived returns the schema with the given key. It creates the schema from members if necessary.
func (b *builder) derived(key string, origin *source.Node, members func() []source.Member) *source.Node {
	n := b.mergedSchemas[key]
	if n == nil {
		n = &source.Node{Kind: source.Object, Range: origin.Range, Members: members()}
		b.mergedSchemas[key], b.origin[n] = n, origin
	}
	return n
}

// listOf returns a keyword whose value is a list of schemas.
func listOf(keyword string, nodes ...*source.Node) source.Member {
	at := nodes[0].Range
	return source.Member{Key: keyword, KeyRange: at, Value: &source.Node{Kind: source.Array, Range: at, Items: nodes}}
}

// isUnconstrained reports whether n is the schema true or contains only annotations.
func isUnconstrained(n *source.Node) bool {
	return n.True() || n.Kind == source.Object && !slices.ContainsFunc(n.Members, func(m source.Member) bool { return !isAnnotation(m.Key) })
}
