package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// defName returns the type name of a schema in $defs. It adds the suffix Def if a member's type has the same name, for
// example a member named group and $defs: {group: …}. The result depends only on the root.
func (b *builder) defName(r *root, n *source.Node, name string) string {
	if n.Get("x-go-name") != nil {
		return name
	}
	if r.members == nil {
		r.members = map[string][]*source.Node{}
		b.addNested(r, r.node, r.decl.Name)
	}
	for b.anyRequiresDecl(r.members[name], n) {
		name += "Def"
	}
	return name
}

// anyRequiresDecl reports whether any of the nodes, except the given one, requires a declaration.
func (b *builder) anyRequiresDecl(nodes []*source.Node, except *source.Node) bool {
	for _, n := range nodes {
		if n == except || n.Kind != source.Object {
			continue
		}
		switch b.shape(n).kind {
		case structShape, enumShape, unionShape:
			return true
		}
	}
	return false
}

// addNested records the type names of the members in n and its subschemas.
func (b *builder) addNested(r *root, n *source.Node, name string) {
	add := func(v *source.Node, name string) {
		r.members[name] = append(r.members[name], v)
		b.addNested(r, v, name)
	}
	for _, m := range n.MembersAt("properties") {
		add(m.Value, name+b.goName(m.Value, m.Key))
	}
	for _, k := range []struct{ keyword, add string }{{"items", "Item"}, {"additionalProperties", "Value"}} {
		if v := n.Get(k.keyword); v != nil && v.Kind == source.Object {
			add(v, name+nameSegment(v, k.add))
		}
	}
	for _, item := range n.ItemsAt("allOf") { // allOf is merged, so its members are members of n
		b.addNested(r, item, name)
	}
	for _, k := range []string{"$defs", "definitions"} {
		for _, m := range n.MembersAt(k) {
			b.addNested(r, m.Value, name+b.goName(m.Value, m.Key))
		}
	}
}
