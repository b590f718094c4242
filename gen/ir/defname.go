package ir

import "github.com/mcpe-gen/mcpe-gen/gen/source"

// defName is the name of the type of a schema below $defs, which would be that of a member: {group:
// {type: object}} beside $defs: {group: …}. The member keeps its name and the definition gets Def
// behind it, so that they never meet. It depends on nothing outside the root.
func (b *builder) defName(r *root, n *source.Node, name string) string {
	if n.Get("x-go-name") != nil {
		return name
	}
	if r.members == nil {
		r.members = map[string][]*source.Node{}
		r.nested(r.node, r.decl.Name)
	}
	for b.declaresAny(r.members[name], n) {
		name += "Def"
	}
	return name
}

// declaresAny reports whether one of the nodes, but for except, has a type of its own.
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

// nested enters the names that the members below n would give to their types.
func (r *root) nested(n *source.Node, name string) {
	add := func(v *source.Node, name string) {
		r.members[name] = append(r.members[name], v)
		r.nested(v, name)
	}
	for _, m := range membersOf(n.Get("properties")) {
		add(m.Value, name+goName(m.Value, m.Key))
	}
	for _, k := range []struct{ keyword, add string }{{"items", "Item"}, {"additionalProperties", "Value"}} {
		if v := n.Get(k.keyword); v != nil && v.Kind == source.Object {
			add(v, name+segment(v, k.add))
		}
	}
	for _, item := range itemsOf(n.Get("allOf")) { // merged: its members are those of n
		r.nested(item, name)
	}
	for _, k := range []string{"$defs", "definitions"} {
		for _, m := range membersOf(n.Get(k)) {
			r.nested(m.Value, name+goName(m.Value, m.Key))
		}
	}
}
