package ir

import (
	"slices"
	"strings"

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
	if b.untagged(f) {
		o.open, o.extra = true, nil
	}
	if !b.named(f, o) {
		return shape{}
	}
	if !o.open {
		b.conditional(f, o)
	}
	if len(o.members) == 0 && o.open {
		return shape{kind: mapShape, elem: o.extra}
	}
	if len(o.members) == 0 && f.get("properties") == nil && f.get("additionalProperties") == nil {
		switch r := b.roots[f.node]; {
		case r == nil || r.shared:
			b.report(source.New("MCPE213", f.node.Range, "the object has no members; its Go type is map[string]json.RawMessage").
				WithHint("write additionalProperties: true when members of any name are meant, false when none are"))
			return shape{kind: mapShape}
		case !r.input:
			b.report(source.New("MCPE213", f.node.Range, "the payload has no members; its Go type is an empty struct").
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
			if seen[m.Key] || !tagged(m.Key) {
				continue
			}
			seen[m.Key] = true
			node := b.memberSchema(f, m.Key)
			// What contradicts itself in one schema is a mistake, and so is a required member without a
			// value: its own shape says why. Of several schemas that meet, none need be wrong.
			if !f.requires(m.Key) && b.origin[node] != nil && b.impossible(node, 0) {
				b.report(without(m).WithRelated(f.node.Range, "because of the schemas that meet here"))
				continue
			}
			if b.allowed(node) == 0 && b.never(node) {
				if f.requires(m.Key) {
					b.noValue(f, "the required member "+m.Key+" can have no value", node)
					return false
				}
				if m.Value.Kind == source.Object {
					b.report(without(m).WithRelated(node.Range, "it is excluded here").
						WithHint("additionalProperties: false sees only the properties beside it; unevaluatedProperties: false sees all"))
				}
				continue
			}
			o.members = append(o.members, member{m.Key, m.KeyRange, node, f.requires(m.Key)})
		}
	}
	for _, r := range namesOnly(f) {
		if seen[r.at.Text] || o.open {
			continue
		}
		seen[r.at.Text] = true
		if node := b.memberSchema(f, r.at.Text); b.allowed(node) == 0 {
			if r.required {
				b.noValue(f, "the required member "+r.at.Text+" is not allowed", r.at)
				return false
			}
			continue
		}
		b.report(source.New("MCPE212", r.at.Range, "%s names the member %q, which is not in properties; its Go type is json.RawMessage", r.keyword, r.at.Text).
			WithHint("describe it in properties"))
		o.members = append(o.members, member{r.at.Text, r.at.Range, nil, r.required})
	}
	return true
}

// untagged reports members whose names cannot stand in a struct tag: they are kept in Extra.
func (b *builder) untagged(f *facts) bool {
	found := false
	for _, p := range f.parts {
		for _, m := range membersOf(p.Get("properties")) {
			if tagged(m.Key) || m.Value.Kind == source.Bool && !m.Value.True() {
				continue
			}
			found = true
			b.report(source.New("MCPE211", m.KeyRange, "the member name %q does not fit into a Go struct tag; its JSON is in the field Extra", m.Key))
		}
	}
	for _, r := range namesOnly(f) {
		found = found || !tagged(r.at.Text)
	}
	return found
}

// tagged reports whether a member name can stand in a json struct tag.
func tagged(name string) bool {
	return name != "" && !strings.ContainsAny(name, ",\\'\"`\uFEFF")
}

// without says that a member was left out.
func without(m source.Member) source.Diagnostic {
	return source.New("MCPE216", m.KeyRange, "the member %q can have no value, so the Go type has no field for it", m.Key)
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
			case isFalse && len(patterns) == 0 && !b.branchesOpen(f, map[*source.Node]bool{}):
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
