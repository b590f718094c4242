package ir

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

func (b *builder) fillStruct(d *Decl, sh *shape, at site) {
	d.Accessors = at.root.input || at.root.shared
	members := scope{
		"MarshalJSON":   {what: "the method MarshalJSON"},
		"UnmarshalJSON": {what: "the method UnmarshalJSON"},
	}
	if sh.object.isOpen {
		members["Extra"] = declared{what: "the field Extra"}
	}
	for _, m := range sh.object.members {
		d.Fields = append(d.Fields, b.field(d, m, members, at))
	}
	if sh.object.isOpen {
		d.Extra = b.elementType(sh.object.extra, at, "Value", "a value")
	}
}

func (b *builder) field(d *Decl, m member, members scope, at site) *Field {
	f := &Field{Name: GoName(m.key), JSON: m.key, At: m.at, Required: m.required}
	if m.node != nil {
		f.Name, f.Doc = b.goName(m.node, m.key), docOf(m.node)
	}
	b.declareName(members, f.Name, "member "+m.key, m.at)
	if m.node == nil {
		f.Base, f.Why = &Type{Kind: External, Go: RawMessage}, undescribed
		return f
	}
	if sh := b.shape(m.node); m.required && sh.isTag() {
		f.Base = &Type{Kind: sh.base}
		if value := goLiteral(sh.values[0], sh.base); !isZero(value) {
			f.Const = value
		}
		return f
	}
	f.Base = b.typeOf(m.node, at.below(m.node, f.Name, "the member "+m.key))
	f.Nullable, f.Why = b.isNullable(m.node), b.shape(m.node).why
	if def := m.node.Get("default"); def != nil {
		f.Default = def.JSON()
		if d.Accessors && !m.required && !f.Nullable {
			b.pending = append(b.pending, accessor{d, f, def, members})
		}
	}
	return f
}

// undescribed is the reason why a member that is not in properties has the Go type json.RawMessage.
const undescribed = "the member is not described in the properties"

// isTag reports whether a shape has a single value that needs no declared type. If the author named the value, it has a
// declared type.
func (sh *shape) isTag() bool {
	return sh.kind == enumShape && len(sh.values) == 1 && !sh.isOpen && !sh.allowsNull && sh.base != Literal && explicitName(sh.values[0]) == ""
}

// elementType returns the type of elements or unnamed members. If elem is nil, any value is allowed.
func (b *builder) elementType(elem *source.Node, at site, what, role string) *Type {
	if elem == nil {
		return &Type{Kind: External, Go: RawMessage}
	}
	return b.nullType(elem, at.below(elem, what, role))
}

func (d *describer) objectType(sh *shape, name string) model.Type {
	f := sh.facts
	t := model.Type{Kind: model.Object, Members: make([]model.Member, 0, len(sh.object.members)),
		MinProperties: bound(f, "minProperties", 1), MaxProperties: bound(f, "maxProperties", -1)}
	for _, m := range sh.object.members {
		t.Members = append(t.Members, d.member(m, name))
	}
	d.addMembers(&t, f, name, func(key string) bool { return !isTaggable(key) })
	if open, extra := d.hasUnnamed(f); open {
		t.Extra = d.elementTypeOf(extra, name, "Value", "the schema allows members of any name and type")
	}
	t.Patterns, t.Choices = d.describePatterns(f, name), d.describeChoices(f, name)
	return t
}

// addMembers describes the members in properties that t lacks, if counted returns true for their names.
func (d *describer) addMembers(t *model.Type, f *facts, name string, counted func(key string) bool) {
	for _, m := range f.properties {
		if !counted(m.Key) || slices.ContainsFunc(t.Members, func(have model.Member) bool { return have.Name == m.Key }) {
			continue
		}
		if n := d.memberSchema(f, m.Key); d.allowedKinds(n) != 0 {
			t.Members = append(t.Members, d.member(member{m.Key, m.KeyRange, n, f.requires(m.Key)}, name))
		}
	}
}

func (d *describer) member(m member, of string) model.Member {
	out := model.Member{Name: m.key, Required: m.required, Pos: m.at.Start.String(),
		Type: model.Type{Kind: model.Any, Reason: undescribed}}
	if m.node == nil {
		return out
	}
	out.Type = d.typeOf(m.node, of+d.goName(m.node, m.key))
	doc, def := d.authorDoc(m.node)
	if out.Type.Kind == model.Ref { // the definition has the remaining details
		doc = docOf(m.node)
	}
	out.Description, out.Deprecated, out.Default, out.Private = doc.Text, doc.Deprecated, def, d.set.PrivateSchema(m.node) != nil
	return out
}

func (d *describer) mapType(sh *shape, name string) model.Type {
	values := d.elementTypeOf(sh.elem, name, "Value", "the schema says nothing about the values")
	return model.Type{Kind: model.Map, Items: values, Patterns: d.describePatterns(sh.facts, name),
		MinProperties: bound(sh.facts, "minProperties", 1), MaxProperties: bound(sh.facts, "maxProperties", -1)}
}

// elementTypeOf describes elements or unnamed members. If elem is nil, any value is allowed, and reason says why.
func (d *describer) elementTypeOf(elem *source.Node, name, what, reason string) *model.Type {
	t := model.Type{Kind: model.Any, Reason: reason}
	if elem != nil {
		t = d.typeOf(elem, name+nameSegment(elem, what))
	}
	return &t
}

// describePatterns describes the members that match the patterns of the first part with patternProperties.
func (d *describer) describePatterns(f *facts, name string) []model.Pattern {
	var all []model.Pattern
	for _, p := range f.parts {
		for _, m := range p.MembersAt("patternProperties") {
			if m.Value.Kind == source.Object {
				all = append(all, model.Pattern{Pattern: m.Key, Type: *d.elementTypeOf(m.Value, name, "Value", "")})
			}
		}
		if rest := p.Get("additionalProperties"); len(all) > 0 && rest != nil && rest.Kind == source.Object {
			all = append(all, model.Pattern{Type: *d.elementTypeOf(rest, name, "Value", "")})
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// describeChoices describes the members of the unions in an object schema.
func (d *describer) describeChoices(f *facts, name string) []model.Choice {
	var all []model.Choice
	for _, u := range f.unions {
		var c model.Choice
		told := false
		for i, v := range u.variants {
			if d.allowedKinds(v)&schematree.Object == 0 {
				continue
			}
			o := model.Type{Kind: model.Object, Members: []model.Member{}}
			d.addMembers(&o, d.gatherFacts(v), name+nameSegment(v, strconv.Itoa(i+1)), func(string) bool { return true })
			told = told || len(o.Members) > 0
			c.Variants = append(c.Variants, model.Variant{Title: d.variantTitle(v), Type: o})
		}
		if told {
			all = append(all, c)
		}
	}
	return all
}
