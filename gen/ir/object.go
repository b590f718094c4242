package ir

import (
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// object is the shape of an object schema: a struct for named members, a map where only
// additionalProperties speaks.
func (b *builder) object(n *source.Node) shape {
	props := n.Get("properties")
	if props == nil || len(props.Members) == 0 {
		if keepsMore(n) {
			return shape{kind: mapShape}
		}
		if r := b.roots[n]; props == nil && n.Get("additionalProperties") == nil && (r == nil || !r.input) {
			b.report(source.New("MCPE213", n.Range, "the object has no members; its Go type is an empty struct").
				WithHint("write additionalProperties: true when members of any name are meant"))
		}
	}
	return shape{kind: structShape}
}

// keepsMore reports whether additionalProperties is written and lets members through.
func keepsMore(n *source.Node) bool {
	ap := n.Get("additionalProperties")
	return ap != nil && (ap.Kind == source.Object || ap.True())
}

func (b *builder) fillStruct(d *Decl, sh *shape, at site) {
	n := sh.node
	d.Accessors = at.root.input || at.root.shared
	members := scope{
		"MarshalJSON":   {what: "the method MarshalJSON"},
		"UnmarshalJSON": {what: "the method UnmarshalJSON"},
	}
	if keepsMore(n) {
		members["Extra"] = declared{what: "the field Extra"}
	}
	required := map[string]bool{}
	props := n.Get("properties")
	for _, r := range itemsOf(n.Get("required")) {
		required[r.Text] = true
		if props.Get(r.Text) == nil && !keepsMore(n) {
			b.report(source.New("MCPE212", r.Range, "required member %q is not in properties", r.Text))
		}
	}
	if props == nil {
		props = &source.Node{Kind: source.Object}
	}
	for _, m := range props.Members {
		if f := b.field(d, m, required[m.Key], members, at); f != nil {
			d.Fields = append(d.Fields, f)
		}
	}
	if keepsMore(n) {
		d.Extra = b.extraType(n, at)
	}
}

func (b *builder) field(d *Decl, m source.Member, required bool, members scope, at site) *Field {
	if !tagged(m.Key) {
		b.report(source.New("MCPE211", m.KeyRange, "the member name %q does not fit into a Go struct tag", m.Key).
			WithHint("give the object x-go-type: encoding/json.RawMessage"))
		return nil
	}
	f := &Field{Name: goName(m.Value, m.Key), JSON: m.Key, Doc: docOf(m.Value), At: m.KeyRange, Required: required}
	b.declare(members, f.Name, "member "+m.Key, m.KeyRange)
	f.Base = b.typeOf(m.Value, site{name: at.name + f.Name, role: "the member " + m.Key + " of " + d.Name, root: at.root})
	f.Nullable = b.nullable(m.Value)
	if def := m.Value.Get("default"); def != nil {
		f.Default = def.JSON()
		if d.Accessors && !required && !f.Nullable {
			b.pending = append(b.pending, accessor{d, f, def, members})
		}
	}
	return f
}

// tagged reports whether a member name can stand in a json struct tag.
func tagged(name string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		switch r {
		case ',', '\\', '\'', '"', '`', '\n', '\r':
			return false
		}
		if r < ' ' || r == '\uFEFF' {
			return false
		}
	}
	return true
}

func itemsOf(n *source.Node) []*source.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
