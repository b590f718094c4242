package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// An object describes the members of object values, combined from all schemas that apply.
type object struct {
	members []member
	// isOpen reports whether members without a field are kept. extra is their schema, or nil for any value.
	isOpen bool
	extra  *source.Node
}

// A member is a named member. Its schema combines all parts.
type member struct {
	key string
	at  source.Range
	// node is nil if only the name is known.
	node     *source.Node
	required bool
}

// objectShape returns a struct if members are named, or a map if only unnamed members are described.
func (b *builder) objectShape(f *facts) shape {
	o := &object{}
	o.isOpen, o.extra = b.hasUnnamed(f)
	if b.hasUntaggable(f) {
		o.isOpen, o.extra = true, nil
	}
	if !b.addNamed(f, o) {
		return shape{}
	}
	if !o.isOpen {
		b.addConditional(f, o)
	}
	if len(o.members) == 0 && o.isOpen {
		return shape{kind: mapShape, facts: f, elem: o.extra}
	}
	if len(o.members) == 0 && f.keyword("properties") == nil && f.keyword("additionalProperties") == nil {
		switch r := b.roots[f.node]; {
		case r == nil || r.shared:
			b.report(source.New("MCPE213", f.node.Range, "the object has no members; its Go type is map[string]json.RawMessage").
				WithHint("write additionalProperties: true when members of any name are meant, false when none are"))
			return shape{kind: mapShape, facts: f}
		case !r.input:
			b.report(source.New("MCPE213", f.node.Range, "the payload has no members; its Go type is an empty struct").
				WithHint("write additionalProperties: true when members of any name are meant"))
		}
	}
	return shape{kind: structShape, facts: f, object: o}
}

// addNamed adds the members in properties and required. It returns false if a required member has no valid value.
func (b *builder) addNamed(f *facts, o *object) bool {
	seen := map[string]bool{}
	for _, m := range f.properties {
		if seen[m.Key] || !isTaggable(m.Key) {
			continue
		}
		seen[m.Key] = true
		node := b.memberSchema(f, m.Key)
		// A contradiction within one schema is a mistake, as is a required member without a valid value; its shape
		// reports the reason. A contradiction between several schemas need not be an error.
		if !f.requires(m.Key) && b.origin[node] != nil && b.isImpossible(node, 0) {
			b.report(omittedMember(m).WithRelated(f.node.Range, "because of the schemas that meet here"))
			continue
		}
		if b.allowedKinds(node) == 0 && b.isNever(node) {
			if f.requires(m.Key) {
				b.reportNoValue(f, "the required member "+m.Key+" can have no value", node)
				return false
			}
			if m.Value.Kind == source.Object {
				b.report(omittedMember(m).WithRelated(node.Range, "it is excluded here").
					WithHint("additionalProperties: false sees only the properties next to it; unevaluatedProperties: false sees all"))
			}
			continue
		}
		o.members = append(o.members, member{m.Key, m.KeyRange, node, f.requires(m.Key)})
	}
	for _, r := range mentions(f) {
		if seen[r.at.Text] || o.isOpen {
			continue
		}
		seen[r.at.Text] = true
		if node := b.memberSchema(f, r.at.Text); b.allowedKinds(node) == 0 {
			if r.required {
				b.reportNoValue(f, "the required member "+r.at.Text+" is not allowed", r.at)
				return false
			}
			continue
		}
		if !b.reportUndescribed(r, o.members) {
			return false
		}
		o.members = append(o.members, member{r.at.Text, r.at.Range, nil, r.required})
	}
	return true
}

// reportUndescribed reports a mention of a member that is not in properties. It returns false if the member cannot have
// a field, because a described member has the same Go name.
func (b *builder) reportUndescribed(r mention, described []member) bool {
	names := make([]string, len(described))
	for i, m := range described {
		names[i] = m.key
	}
	near := suggest.Nearest(r.at.Text, names)
	for _, m := range described {
		if m.node != nil && b.goName(m.node, m.key) == GoName(r.at.Text) {
			b.report(source.New("MCPE206", r.at.Range, "%s names the member %q, which is not in properties; the member %q has its Go name", r.keyword, r.at.Text, m.key).
				WithRelated(m.at, "member %s is here", m.key).
				WithHint("did you mean %q? If not, describe %s in properties with x-go-name", m.key, r.at.Text))
			return false
		}
	}
	hint := "describe it in properties"
	if near != "" {
		hint = fmt.Sprintf("did you mean %q? If not, describe it in properties", near)
	}
	b.report(source.New("MCPE212", r.at.Range, "%s names the member %q, which is not in properties; its Go type is json.RawMessage", r.keyword, r.at.Text).
		WithHint("%s", hint))
	return true
}

// hasUntaggable reports whether a member name is invalid in a struct tag. It adds a diagnostic for each such member in
// properties. The field Extra contains them.
func (b *builder) hasUntaggable(f *facts) bool {
	found := false
	for _, m := range f.properties {
		if isTaggable(m.Key) || m.Value.Kind == source.Bool && !m.Value.True() {
			continue
		}
		found = true
		b.report(source.New("MCPE211", m.KeyRange, "the member name %q does not fit into a Go struct tag; its JSON is in the field Extra", m.Key))
	}
	for _, r := range mentions(f) {
		found = found || !isTaggable(r.at.Text)
	}
	return found
}

// isTaggable reports whether a member name is valid in a json struct tag.
func isTaggable(name string) bool {
	return name != "" && !strings.ContainsAny(name, ",\\'\"`\uFEFF")
}

// omittedMember returns the diagnostic for a member that is omitted because it has no valid value.
func omittedMember(m source.Member) source.Diagnostic {
	return source.New("MCPE216", m.KeyRange, "the member %q can have no value, so the Go type has no field for it", m.Key)
}

// isNever reports whether n is the schema false. It follows references.
func (b *builder) isNever(n *source.Node) bool {
	sh := b.followReferences(n)
	return sh != nil && sh.kind == neverShape
}

// memberSchema returns the schema of a named member, combined from all parts.
func (b *builder) memberSchema(f *facts, name string) *source.Node {
	if nodes := schematree.Member(f.parts, name); len(nodes) > 0 {
		return b.allOf(nodes...)
	}
	return &source.Node{Kind: source.Bool, Text: "true", Range: f.node.Range}
}

// hasUnnamed reports whether unnamed members are allowed. It also returns their schema if a single Go type can
// represent all of them.
func (b *builder) hasUnnamed(f *facts) (open bool, extra *source.Node) {
	var all []possibleSchemas
	for i, p := range f.parts {
		var o possibleSchemas
		patterns := p.MembersAt("patternProperties")
		for _, m := range patterns {
			o.add(m.Value)
		}
		ap, un := p.Get("additionalProperties"), p.Get("unevaluatedProperties")
		if ap == nil && un != nil {
			// Members that another schema of this value describes are excepted.
			excepted := len(f.unions) > 0 || len(f.branches) > 0 || slices.ContainsFunc(f.parts, func(q *source.Node) bool {
				return q != f.parts[i] && (q.Get("patternProperties") != nil || q.Get("additionalProperties") != nil)
			})
			switch isFalse := un.Kind != source.Object && !un.True(); {
			case !excepted:
				ap = un
			case isFalse && len(patterns) == 0 && !b.hasOpenBranch(f, map[*source.Node]bool{}):
				continue
			default:
				o.anyValue = true
			}
		}
		switch {
		case ap != nil:
			o.add(ap)
		case o.anyValue:
		case len(patterns) > 0:
			o.anyValue = true
		default:
			continue // does not concern other members
		}
		if len(o.nodes) == 0 && !o.anyValue {
			return false, nil
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return false, nil
	}
	extra = b.commonSchema(all)
	if extra == nil && slices.ContainsFunc(all, func(o possibleSchemas) bool { return len(o.nodes) > 0 }) {
		b.report(source.New("MCPE217", f.node.Range, "members without a fixed name have values of different types; their Go type is json.RawMessage").
			WithHint("with one patternProperties and additionalProperties: false they have one type"))
	}
	return true, extra
}

// possibleSchemas lists the schemas that one part can apply to an unnamed member or element. anyValue reports whether
// the part can also apply no schema.
type possibleSchemas struct {
	nodes    []*source.Node
	anyValue bool
}

func (o *possibleSchemas) add(n *source.Node) {
	switch {
	case isUnconstrained(n):
		o.anyValue = true
	case n.Kind == source.Object:
		o.nodes = append(o.nodes, n)
	}
}

// commonSchema returns a schema whose Go type can represent every value that the parts allow, or nil.
func (b *builder) commonSchema(parts []possibleSchemas) *source.Node {
	var single []*source.Node
	var either *source.Node
	for _, o := range parts {
		switch {
		case o.anyValue || len(o.nodes) == 0:
		case len(o.nodes) == 1:
			single = append(single, o.nodes[0])
		case b.haveSameGoType(o.nodes):
			either = o.nodes[0]
		}
	}
	if len(single) > 0 {
		return b.allOf(single...)
	}
	return either
}

// haveSameGoType reports whether all nodes have the same Go type.
func (b *builder) haveSameGoType(nodes []*source.Node) bool {
	first := b.shape(nodes[0])
	for _, n := range nodes[1:] {
		sh := b.shape(n)
		same := sh.kind == first.kind && b.isNullable(n) == b.isNullable(nodes[0])
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
