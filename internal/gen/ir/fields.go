package ir

import (
	"slices"

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
		d.Extra = b.elementType(sh.object.extra, at, "Value", "a value of ")
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
	f.Base = b.typeOf(m.node, site{name: at.name + f.Name, role: "the member " + m.key + " of " + d.Name, root: at.root})
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
	return sh.kind == enumShape && len(sh.values) == 1 && !sh.isOpen && !sh.allowsNull && sh.base != Literal && !hasExplicitName(sh.values[0])
}

// elementType returns the type of elements or unnamed members. If elem is nil, any value is allowed.
func (b *builder) elementType(elem *source.Node, at site, what, role string) *Type {
	if elem == nil {
		return &Type{Kind: External, Go: RawMessage}
	}
	return b.nullType(elem, site{name: at.name + nameSegment(elem, what), role: role + at.name, root: at.root})
}

// A tuple contains the schemas of the elements of an array by position.
type tuple struct {
	first []*source.Node
	// isOpen reports whether elements can follow those in first. rest is their schema, or nil for any value.
	isOpen bool
	rest   *source.Node
}

// maxTuple is the maximum number of elements to describe individually.
const maxTuple = 64

// shapeOfArray returns the shape of an array. In Go, it is a slice. If the elements do not have a common Go type, they
// are raw JSON.
func (b *builder) shapeOfArray(f *facts) shape {
	var all []possibleSchemas
	closed := -1 // the number of elements to which the schema limits the array
	if v := f.tightestBound("maxItems", -1); v != nil {
		if n, ok := int64Of(v.Text); ok {
			closed = int(min(n, 1<<30))
		}
	}
	positional := false
	var described []tuple // by the parts
	for _, p := range f.parts {
		var o possibleSchemas
		first, rest, _ := schematree.Elements(p)
		positional = positional || len(first) > 0
		describes, isOpen := len(first) > 0 || rest != nil, closed < 0 || closed > len(first)
		if !isOpen {
			first = first[:closed]
		}
		if describes {
			described = append(described, tuple{first, isOpen, rest})
		}
		for _, n := range first {
			o.add(n)
		}
		if rest != nil {
			o.add(rest)
		} else if isOpen {
			o.anyValue = true
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		all = []possibleSchemas{{anyValue: true}}
	}
	sh := shape{kind: arrayShape, facts: f, elem: b.commonSchema(all)}
	if positional && len(described) == 1 && len(described[0].first) <= maxTuple {
		sh.tuple = &described[0]
	}
	switch {
	case sh.elem != nil:
	case positional:
		b.report(source.New("MCPE217", f.node.Range, "the elements of the array have different types; its Go type is []json.RawMessage").
			WithHint("prefixItems of one type with items: false (or of that type) give a typed slice; otherwise choose x-go-type"))
	case f.keyword("items") == nil || !slices.ContainsFunc(all, func(o possibleSchemas) bool { return len(o.nodes) == 0 && !o.anyValue }):
		b.report(source.New("MCPE202", f.node.Range, "the array says nothing about its items; its Go type is []json.RawMessage").
			WithHint("give items a type, or x-go-type: encoding/json.RawMessage when any value is meant"))
	}
	return sh
}
