package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// jsonTypes lists the JSON types that distinguish variants, with the suffixes of their Go types.
var jsonTypes = []struct {
	kinds        schematree.Types
	word, suffix string
}{
	{schematree.String, "string", "String"}, {schematree.Number, "number", "Number"}, {schematree.Boolean, "boolean", "Boolean"}, {schematree.Array, "array", "Array"}, {schematree.Object, "object", "Object"},
}

// jsonType returns the JSON type of the kinds. It returns false unless all kinds have the same JSON type.
func jsonType(k schematree.Types) (word, suffix string, ok bool) {
	for _, t := range jsonTypes {
		if k != 0 && k&^t.kinds == 0 {
			return t.word, t.suffix, true
		}
	}
	return "", "", false
}

// kindUnion returns a union plan with a variant for each of several JSON types.
func (b *builder) kindUnion(f *facts, of schematree.Types) *unionPlan {
	var order []string
	for _, p := range f.parts { // in source order
		if t := p.Get("type"); t != nil {
			for _, item := range t.Items {
				order = append(order, item.Text)
			}
		}
	}
	order = append(order, "boolean", "number", "integer", "string", "array", "object")
	plan := &unionPlan{}
	for _, name := range order {
		k := schematree.Named(name) & of &^ schematree.Null
		of &^= k
		if k == 0 {
			continue
		}
		word, suffix, _ := jsonType(k)
		if k&schematree.Number == schematree.Integer {
			name = "integer"
		}
		n := b.withType(f.node, name)
		plan.variants = append(plan.variants, plannedVariant{node: n, originals: []*source.Node{n}, jsonType: word, name: suffix})
	}
	return plan
}

// withType returns a schema for the values of n that have the given JSON type.
func (b *builder) withType(n *source.Node, typ string) *source.Node {
	return b.derived(identity([]*source.Node{n})+"of type "+typ, n, func() []source.Member {
		text := &source.Node{Kind: source.String, Text: typ, Range: n.Range}
		is := &source.Node{Kind: source.Object, Range: n.Range, Members: []source.Member{{Key: "type", KeyRange: n.Range, Value: text}}}
		return []source.Member{listOf("allOf", n, is)}
	})
}

// anyOf returns a schema for the values that satisfy any of the nodes.
func (b *builder) anyOf(nodes []*source.Node) *source.Node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	return b.derived("either "+identity(nodes), nodes[0], func() []source.Member { return []source.Member{listOf("anyOf", nodes...)} })
}

// untaggedUnion returns the union plan for variants without a tag. The JSON type of a value identifies its variant. If
// several variants are objects, a tag or a required member identifies them. It returns nil if the variants cannot be
// distinguished.
func (b *builder) untaggedUnion(f *facts, variants []*source.Node) *unionPlan {
	type group struct {
		word, suffix string
		nodes        []*source.Node
	}
	var groups []*group
	for _, v := range b.flattenUnions(variants) {
		word, suffix, ok := jsonType(b.allowedKinds(v) & f.kinds &^ schematree.Null)
		if !ok || b.lacksGoType(v) {
			return nil
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.word == word })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{word: word, suffix: suffix})
		}
		groups[i].nodes = append(groups[i].nodes, v)
	}
	plan := &unionPlan{}
	for _, g := range groups {
		switch {
		case len(g.nodes) == 1:
			plan.variants = append(plan.variants, plannedVariant{node: g.nodes[0], originals: g.nodes, jsonType: g.word, name: g.suffix})
		case g.word == "object":
			objects := b.objectUnion(f, g.nodes)
			if objects == nil {
				return nil
			}
			plan.tag, plan.literal = objects.tag, objects.literal
			plan.variants = append(plan.variants, objects.variants...)
		case g.word == "array":
			return nil
		default:
			n := b.anyOf(g.nodes)
			if sh := b.followReferences(n); sh == nil || sh.kind != scalarShape && sh.kind != enumShape {
				return nil
			}
			plan.variants = append(plan.variants, plannedVariant{node: n, originals: g.nodes, jsonType: g.word, name: g.suffix})
		}
	}
	if len(plan.variants) < 2 {
		return nil
	}
	return plan
}

// lacksGoType reports whether a variant is invalid or remains raw JSON.
func (b *builder) lacksGoType(n *source.Node) bool {
	sh := b.followReferences(n)
	return sh == nil || sh.kind == failedShape || sh.kind == neverShape || sh.kind == externalShape && sh.goType == RawMessage
}

// objectUnion returns the union plan for objects that are identified by a tag or by a unique member.
func (b *builder) objectUnion(f *facts, variants []*source.Node) *unionPlan {
	if plan := b.inferredUnion(f, variants); plan != nil {
		return plan
	}
	objects := b.variantObjects(variants)
	if objects == nil {
		return nil
	}
	plan := &unionPlan{}
	for i, o := range objects {
		own := slices.IndexFunc(o.members, func(m member) bool {
			count := 0
			for _, other := range objects {
				if other.get(m.key) != nil {
					count++
				}
			}
			return m.required && count == 1
		})
		if own < 0 {
			return nil
		}
		plan.variants = append(plan.variants, plannedVariant{
			node: variants[i], originals: variants[i : i+1], jsonType: "object", identifyingMember: o.members[own].key, name: Suffix(o.members[own].key),
		})
	}
	return plan
}
