package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// An object is what the schemas of one value say about its members.
type object struct {
	members []member
	// open says that members of other names are kept; extra describes them, nil for any value.
	open  bool
	extra *source.Node
}

// A member is a named member and the schema that all parts together give it.
type member struct {
	key string
	at  source.Range
	// node is nil where nothing but the name is known; raw says why such a member stays JSON.
	node     *source.Node
	required bool
}

// objectShape is a struct for named members, a map where only others are described.
func (b *builder) objectShape(f *facts) shape {
	o := &object{}
	o.open, o.extra = b.others(f)
	if !b.named(f, o) {
		return shape{}
	}
	if !o.open {
		b.conditional(f, o)
	}
	if len(o.members) == 0 && o.open {
		return shape{kind: mapShape, elem: o.extra}
	}
	if len(o.members) == 0 {
		if r := b.roots[f.node]; f.get("properties") == nil && f.get("additionalProperties") == nil && (r == nil || !r.input) {
			b.report(source.New("MCPE213", f.node.Range, "the object has no members; its Go type is an empty struct").
				WithHint("write additionalProperties: true when members of any name are meant"))
		}
	}
	return shape{kind: structShape, object: o}
}

// named collects the members that properties and required name; false when one can have no value.
func (b *builder) named(f *facts, o *object) bool {
	seen := map[string]bool{}
	for _, p := range f.parts {
		for _, m := range membersOf(p.Get("properties")) {
			if seen[m.Key] {
				continue
			}
			seen[m.Key] = true
			node := b.memberSchema(f, m.Key)
			if b.allowed(node) == 0 && b.never(node) {
				if f.requires(m.Key) {
					b.noValue(f, "the required member "+m.Key+" can have no value", node)
					return false
				}
				if m.Value.Kind == source.Object {
					b.report(source.New("MCPE216", m.KeyRange, "the member %q can have no value, so the Go type has no field for it", m.Key).
						WithRelated(node.Range, "it is excluded here").
						WithHint("additionalProperties: false sees only the properties beside it; unevaluatedProperties: false sees all"))
				}
				continue
			}
			o.members = append(o.members, member{m.Key, m.KeyRange, node, f.requires(m.Key)})
		}
	}
	for _, p := range f.parts {
		for _, r := range itemsOf(p.Get("required")) {
			if seen[r.Text] || o.open {
				continue
			}
			seen[r.Text] = true
			node := b.memberSchema(f, r.Text)
			if b.allowed(node) == 0 {
				b.noValue(f, "the required member "+r.Text+" is not allowed", r)
				return false
			}
			b.report(source.New("MCPE212", r.Range, "required member %q is not in properties; its Go type is json.RawMessage", r.Text).
				WithHint("describe it in properties"))
			o.members = append(o.members, member{r.Text, r.Range, nil, true})
		}
	}
	return true
}

// never reports whether n is the schema false, references followed.
func (b *builder) never(n *source.Node) bool {
	sh := b.follow(n)
	return sh != nil && sh.kind == neverShape
}

// memberSchema returns what all parts together say about the member of a name.
func (b *builder) memberSchema(f *facts, name string) *source.Node {
	var nodes []*source.Node
	for _, p := range f.parts {
		found := false
		if m := p.Get("properties").Get(name); m != nil {
			nodes, found = append(nodes, m), true
		}
		for _, m := range membersOf(p.Get("patternProperties")) {
			if schema.Matches(m.Key, name) {
				nodes, found = append(nodes, m.Value), true
			}
		}
		if ap := p.Get("additionalProperties"); ap != nil && !found {
			nodes = append(nodes, ap)
		}
	}
	if len(nodes) == 0 {
		return &source.Node{Kind: source.Bool, Text: "true", Range: f.node.Range}
	}
	return b.both(nodes...)
}

// others says whether members that no part names are kept, and their schema where one Go type
// holds all of them.
func (b *builder) others(f *facts) (open bool, extra *source.Node) {
	var all []outcomes
	for i, p := range f.parts {
		var o outcomes
		patterns := membersOf(p.Get("patternProperties"))
		for _, m := range patterns {
			o.add(m.Value)
		}
		ap, un := p.Get("additionalProperties"), p.Get("unevaluatedProperties")
		if ap == nil && un != nil {
			// It excepts what any other schema of this value describes.
			excepted := len(f.unions) > 0 || len(f.branches) > 0 || slices.ContainsFunc(f.parts, func(q *source.Node) bool {
				return q != f.parts[i] && (q.Get("patternProperties") != nil || q.Get("additionalProperties") != nil)
			})
			switch isFalse := un.Kind != source.Object && !un.True(); {
			case !excepted:
				ap = un
			case isFalse && len(patterns) == 0:
				continue
			default:
				o.any = true
			}
		}
		switch {
		case ap != nil:
			o.add(ap)
		case o.any:
		case len(patterns) > 0:
			o.any = true
		default:
			continue // says nothing about other members
		}
		if len(o.nodes) == 0 && !o.any {
			return false, nil
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return false, nil
	}
	extra = b.common(all)
	if extra == nil && slices.ContainsFunc(all, func(o outcomes) bool { return len(o.nodes) > 0 }) {
		b.report(source.New("MCPE217", f.node.Range, "members without a name of their own have values of different types; their Go type is json.RawMessage").
			WithHint("with one patternProperties and additionalProperties: false they have one type"))
	}
	return true, extra
}

// outcomes are the schemas that one part may apply to a member or element that it does not name,
// any when it may also apply none.
type outcomes struct {
	nodes []*source.Node
	any   bool
}

func (o *outcomes) add(n *source.Node) {
	switch {
	case saysNothing(n):
		o.any = true
	case n.Kind == source.Object:
		o.nodes = append(o.nodes, n)
	}
}

// common returns a schema whose Go type holds whatever the parts let through; nil for none.
func (b *builder) common(parts []outcomes) *source.Node {
	var single []*source.Node
	var either *source.Node
	for _, o := range parts {
		switch {
		case o.any || len(o.nodes) == 0:
		case len(o.nodes) == 1:
			single = append(single, o.nodes[0])
		case b.alike(o.nodes):
			either = o.nodes[0]
		}
	}
	if len(single) > 0 {
		return b.both(single...)
	}
	return either
}

// alike reports whether all nodes have the same Go type.
func (b *builder) alike(nodes []*source.Node) bool {
	first := b.shape(nodes[0])
	for _, n := range nodes[1:] {
		sh := b.shape(n)
		same := sh.kind == first.kind && b.nullable(n) == b.nullable(nodes[0])
		switch sh.kind {
		case scalarShape:
			same = same && sh.base == first.base
		case refShape:
			same = same && sh.target.Node == first.target.Node
		case externalShape:
			same = same && sh.goType == first.goType
		default:
			return false
		}
		if !same {
			return false
		}
	}
	return true
}

// conditional adds the members that only branches name. They apply to some values, so that nothing
// is certain of the others: such members stay JSON.
func (b *builder) conditional(f *facts, o *object) {
	known := map[string]bool{}
	for _, p := range f.parts {
		for _, m := range membersOf(p.Get("properties")) {
			known[m.Key] = true
		}
	}
	for _, m := range o.members {
		known[m.key] = true
	}
	b.branchMembers(f, o, known, map[*source.Node]bool{})
}

func (b *builder) branchMembers(f *facts, o *object, known map[string]bool, seen map[*source.Node]bool) {
	branches := slices.Clone(f.branches)
	for _, u := range f.unions {
		for _, v := range u.variants {
			branches = append(branches, branch{u.keyword, v})
		}
	}
	for _, br := range branches {
		if seen[br.node] || br.node.Kind != source.Object {
			continue
		}
		seen[br.node] = true
		inner := b.gather(br.node)
		for _, p := range inner.parts {
			for _, m := range membersOf(p.Get("properties")) {
				if known[m.Key] || m.Value.Kind != source.Object && !m.Value.True() {
					continue
				}
				known[m.Key] = true
				b.report(source.New("MCPE217", m.KeyRange, "the member %q is described only below %s; its Go type is json.RawMessage", m.Key, br.keyword).
					WithHint("describe it in the properties beside %s too", br.keyword))
				o.members = append(o.members, member{m.Key, m.KeyRange, nil, false})
			}
		}
		b.branchMembers(inner, o, known, seen)
	}
}
