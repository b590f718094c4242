package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// defName returns the name for the type of a schema below $defs if a member would get the same name, as in {group:
// {type: object}} next to $defs: {group: …}. The member keeps the name and the definition gets the suffix Def. The
// result depends only on the root.
func (b *builder) defName(r *root, n *source.Node, name string) string {
	if n.Get("x-go-name") != nil {
		return name
	}
	if r.members == nil {
		r.members = map[string][]*source.Node{}
		b.nested(r, r.node, r.decl.Name)
	}
	for b.declaresAny(r.members[name], n) {
		name += "Def"
	}
	return name
}

// declaresAny reports whether a node other than except needs a declaration.
func (b *builder) declaresAny(nodes []*source.Node, except *source.Node) bool {
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

// nested records the names that the members below n would give to their types.
func (b *builder) nested(r *root, n *source.Node, name string) {
	add := func(v *source.Node, name string) {
		r.members[name] = append(r.members[name], v)
		b.nested(r, v, name)
	}
	for _, m := range membersOf(n.Get("properties")) {
		add(m.Value, name+b.goName(m.Value, m.Key))
	}
	for _, k := range []struct{ keyword, add string }{{"items", "Item"}, {"additionalProperties", "Value"}} {
		if v := n.Get(k.keyword); v != nil && v.Kind == source.Object {
			add(v, name+segment(v, k.add))
		}
	}
	for _, item := range itemsOf(n.Get("allOf")) { // allOf is merged, so its members are members of n
		b.nested(r, item, name)
	}
	for _, k := range []string{"$defs", "definitions"} {
		for _, m := range membersOf(n.Get(k)) {
			b.nested(r, m.Value, name+b.goName(m.Value, m.Key))
		}
	}
}
