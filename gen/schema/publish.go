package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Published returns the schema as the protocol shows it: compact JSON of what the author wrote,
// without x-match, x-go-* and x-tool-*. References within the schema stay as they are; what the
// schema refers to elsewhere is copied below $defs (definitions in draft-07) under its own name, or
// with a number appended where that name is taken.
//
// A draft-07 schema says so by $schema, also where the author let the file or the configuration say it.
//
// A copied schema gives up its $id, $anchor and $schema, and its references become pointers from the
// top; so does all of a schema that holds an $id below its top and refers to elsewhere, because
// within such an $id the top could not be reached.
func (s *Set) Published(n *source.Node) json.RawMessage {
	p := s.places[n]
	if p == nil || n.Kind != source.Object {
		return n.JSON()
	}
	b := &bundle{set: s, top: n, root: p.root, names: make(map[*source.Node]string), taken: make(map[string]bool)}
	b.flat = p.root.node != n || p.root.nested && b.leaves()
	if defs := n.Get(p.root.dialect.defs); defs != nil {
		for _, m := range defs.Members {
			b.taken[m.Key] = true
		}
	}
	return b.publish()
}

// bundle assembles one published schema.
type bundle struct {
	set  *Set
	top  *source.Node
	root *root
	// flat tells that references of the top are rewritten as those of copies are.
	flat  bool
	names map[*source.Node]string
	taken map[string]bool
	// copies are the schemas to put below $defs, in the order they were met.
	copies []*source.Node
}

// leaves reports whether any reference of the top's root leads out of it.
func (b *bundle) leaves() bool {
	for _, at := range b.root.refs {
		if t, d := b.set.Resolve(at); d == nil && b.set.places[t.Node].root != b.root {
			return true
		}
	}
	return false
}

func (b *bundle) publish() json.RawMessage {
	// The definitions are known only when everything is written, and may have to go into a $defs of
	// the author's in the middle: it is written with a mark where they belong.
	defs := b.root.dialect.defs
	out := []byte{'{'}
	if d := b.root.dialect; d != draft2020 && b.top.Get("$schema") == nil {
		// Said by the file, the configuration or the target of the $ref; who is shown the schema has none.
		out = append(out, `"$schema":`...)
		out = source.AppendString(out, d.uri+"#")
	}
	insert := -1
	for _, m := range b.top.Members {
		before := len(out)
		out = b.member(out, b.top, m, b.flat)
		if m.Key == defs && m.Value.Kind == source.Object && len(out) > before {
			insert = len(out) - 1
		}
	}
	var list []byte
	for i := 0; i < len(b.copies); i++ {
		copied := b.copies[i]
		if i > 0 {
			list = append(list, ',')
		}
		list = source.AppendString(list, b.names[copied])
		list = append(list, ':')
		list = b.schema(list, copied, true)
	}
	switch {
	case len(list) == 0:
	case insert >= 0:
		if out[insert-1] != '{' {
			list = append([]byte{','}, list...)
		}
		out = append(out[:insert:insert], append(list, out[insert:]...)...)
	default:
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = source.AppendString(out, defs)
		out = append(out, ":{"...)
		out = append(append(out, list...), '}')
	}
	return append(out, '}')
}

func (b *bundle) schema(out []byte, n *source.Node, moved bool) []byte {
	if n.Kind != source.Object {
		return append(out, n.JSON()...)
	}
	out = append(out, '{')
	for _, m := range n.Members {
		out = b.member(out, n, m, moved)
	}
	return append(out, '}')
}

// generatorOnly reports whether a keyword is not published.
func generatorOnly(key string) bool {
	return key == "x-match" || strings.HasPrefix(key, "x-go-") || strings.HasPrefix(key, "x-tool-")
}

// member appends one keyword of the schema n, with a comma where one is due.
func (b *bundle) member(out []byte, n *source.Node, m source.Member, moved bool) []byte {
	if generatorOnly(m.Key) {
		return out
	}
	if p := b.set.places[n]; n != b.top && (m.Key == "$defs" || m.Key == "definitions") && p != nil && p.root.file.Document && p.root.node == n {
		return out // each definition is copied by itself
	}
	if moved && n != b.top && (m.Key == "$id" || m.Key == "$schema") || moved && m.Key == "$anchor" {
		return out
	}
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out = source.AppendString(out, m.Key)
	out = append(out, ':')
	switch m.Key {
	case "$ref":
		return source.AppendString(out, b.ref(n, m.Value, moved))
	case "discriminator":
		return b.discriminator(out, n, m.Value, moved)
	}
	return b.value(out, b.root.dialect.keywords[m.Key].shape, m.Value, moved)
}

// value appends a keyword's value, which holds schemas as the shape says.
func (b *bundle) value(out []byte, s shape, v *source.Node, moved bool) []byte {
	switch {
	case v.Kind == source.Array && (s == schemaList || s == schemaOrList):
		out = append(out, '[')
		for i, item := range v.Items {
			if i > 0 {
				out = append(out, ',')
			}
			out = b.schema(out, item, moved)
		}
		return append(out, ']')
	case s == oneSchema || s == schemaOrList:
		return b.schema(out, v, moved)
	case v.Kind == source.Object && (s == schemaMap || s == schemaOrNames):
		out = append(out, '{')
		for i, m := range v.Members {
			if i > 0 {
				out = append(out, ',')
			}
			out = source.AppendString(out, m.Key)
			out = append(out, ':')
			out = b.schema(out, m.Value, moved)
		}
		return append(out, '}')
	}
	return append(out, v.JSON()...)
}

// ref returns the text of a reference as it is published.
func (b *bundle) ref(at, text *source.Node, moved bool) string {
	t, d := b.set.ResolveText(at, text)
	if d != nil {
		return text.Text
	}
	return b.pointer(t, text.Text, moved)
}

func (b *bundle) pointer(t Target, text string, moved bool) string {
	to := b.set.places[t.Node].root
	if to == b.root && within(t.Node, b.top) {
		if !moved && t.local {
			return text
		}
		return "#" + escapeFragment(t.Node.PointerFrom(b.top))
	}
	unit, wanted := b.unit(to, t.Node)
	name, ok := b.names[unit]
	if !ok {
		name = wanted
		for i := 2; b.taken[name]; i++ {
			name = fmt.Sprintf("%s_%d", wanted, i)
		}
		b.names[unit], b.taken[name] = name, true
		b.copies = append(b.copies, unit)
	}
	return "#" + escapeFragment("/"+b.root.dialect.defs+"/"+source.EscapeToken(name)+t.Node.PointerFrom(unit))
}

// unit returns what is copied for the sake of n, and under which name: all of its root, or of a
// document the definition that n belongs to, since documents may hold hundreds of them.
func (b *bundle) unit(r *root, n *source.Node) (*source.Node, string) {
	if r.file.Document {
		for at := n; at != r.node && at.Parent != nil; at = at.Parent {
			list := at.Parent
			if key, _ := list.Key(); list.Parent == r.node && (key == "$defs" || key == "definitions") {
				name, _ := at.Key()
				return at, name
			}
		}
	}
	return r.node, r.name
}

func within(n, top *source.Node) bool {
	for ; n != nil; n = n.Parent {
		if n == top {
			return true
		}
	}
	return false
}

// discriminator appends OpenAPI's keyword; the values of its mapping may be references.
func (b *bundle) discriminator(out []byte, n, v *source.Node, moved bool) []byte {
	mapping := v.Get("mapping")
	if mapping == nil || mapping.Kind != source.Object {
		return append(out, v.JSON()...)
	}
	out = append(out, '{')
	for i, m := range v.Members {
		if i > 0 {
			out = append(out, ',')
		}
		out = source.AppendString(out, m.Key)
		out = append(out, ':')
		if m.Value != mapping {
			out = append(out, m.Value.JSON()...)
			continue
		}
		out = append(out, '{')
		for j, e := range mapping.Members {
			if j > 0 {
				out = append(out, ',')
			}
			out = source.AppendString(out, e.Key)
			out = append(out, ':')
			if e.Value.Kind == source.String && strings.Contains(e.Value.Text, "#") {
				out = source.AppendString(out, b.ref(n, e.Value, moved))
			} else {
				out = append(out, e.Value.JSON()...)
			}
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// escapeFragment escapes what a URI fragment cannot hold as it is.
func escapeFragment(pointer string) string {
	var b bytes.Buffer
	for i := 0; i < len(pointer); i++ {
		c := pointer[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/-._~!$&'()*+,;=:@?", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
		}
	}
	return b.String()
}
