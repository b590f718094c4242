package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Published returns the schema as the protocol transmits it. This is the author's schema as compact JSON, without
// x-match, x-private, x-go-* and x-tool-*. References within the schema are not changed. Other referenced schemas are
// copied to $defs (definitions in draft-07) under their names. If a name is taken, Published appends a number.
//
// Published adds $schema to a draft-07 schema if the author declared the dialect elsewhere.
//
// In a copied schema, Published removes $id, $anchor and $schema, and makes references relative to the root. It makes
// the same changes to the schema itself if a subschema has an $id and the schema refers to other schemas, because
// references within that subschema would not refer to the root.
func (s *Set) Published(n *source.Node) json.RawMessage { return s.Shared(n).JSON() }

// Shared is like [Set.Published], but it returns the copied schemas separately. Schemas that refer to the same
// definition share a copy if its text is equal.
func (s *Set) Shared(n *source.Node) *published.Schema {
	p := s.places[n]
	if p == nil || n.Kind != source.Object {
		return &published.Schema{Head: n.JSON()}
	}
	s.published.mu.Lock()
	defer s.published.mu.Unlock()
	if known := s.published.tops[n]; known != nil {
		return known
	}
	b := &bundle{set: s, top: n, root: p.root, names: make(map[*source.Node]string), taken: make(map[string]bool)}
	b.rewriteRefs = p.root.node != n || p.root.hasNestedID && b.hasExternalRefs()
	if defs := n.Get(p.root.dialect.Definitions); defs != nil {
		for _, m := range defs.Members {
			b.taken[m.Key] = true
		}
	}
	out := b.publish()
	s.published.tops[n] = out
	return out
}

// Origin returns the author's schema from which a definition of a published schema was copied.
func (s *Set) Origin(d *published.Schema) *source.Node {
	s.published.mu.Lock()
	defer s.published.mu.Unlock()
	return s.published.origins[d]
}

// publications caches the published schemas of a set.
type publications struct {
	mu     sync.Mutex
	tops   map[*source.Node]*published.Schema
	units  map[unitKey]*template
	copies map[copyKey]*published.Schema
	// origins maps copies to their source schemas.
	origins map[*published.Schema]*source.Node
	// canonical caches the canonical forms of copies.
	canonical sync.Map
}

func newPublications() *publications {
	return &publications{tops: map[*source.Node]*published.Schema{}, units: map[unitKey]*template{}, copies: map[copyKey]*published.Schema{},
		origins: map[*published.Schema]*source.Node{}}
}

// A unitKey identifies a schema to copy and the dialect of the copy.
type unitKey struct {
	node    *source.Node
	dialect *schematree.Dialect
}

// A copyKey identifies a copy of a schema by its name and its unusual references.
type copyKey struct {
	unitKey
	name, refs string
}

// A template is the JSON of a schema without the text of its references.
type template struct {
	json  []byte
	holes []hole
}

// A hole is the position of a reference in a template. unit is the schema to copy for the target.
type hole struct {
	at         int
	to         Target
	text       string
	moved      bool
	root       *root
	unit       *source.Node
	name, rest string // name of the unit, and the pointer from there
	usual      string // reference if the unit has its usual name
}

// bundle assembles one published schema.
type bundle struct {
	set     *Set
	top     *source.Node // nil while writing a unit for all bundles
	root    *root
	dialect *schematree.Dialect
	// rewriteRefs reports whether to rewrite references in the root, and not only in copies.
	rewriteRefs bool
	names       map[*source.Node]string
	taken       map[string]bool
	// copies lists the schemas to copy to $defs, in order of discovery.
	copies []*source.Node
	holes  []hole // holes of the current text
}

// hasExternalRefs reports whether the schema refers to other top-level schemas.
func (b *bundle) hasExternalRefs() bool {
	for _, at := range b.root.refs {
		if t, d := b.set.Resolve(at); d == nil && b.set.places[t.Node].root != b.root {
			return true
		}
	}
	return false
}

func (b *bundle) publish() *published.Schema {
	b.dialect = b.root.dialect
	top := template{}
	at := -1 // offset of the definitions
	top.json, at = b.publishedHead()
	top.holes = b.holes
	b.assignNames(&top)
	texts := make([]*template, 0, len(b.copies))
	for i := 0; i < len(b.copies); i++ {
		t := b.copyTemplate(b.copies[i])
		b.assignNames(t)
		texts = append(texts, t)
	}
	out := &published.Schema{}
	var shift int
	out.Head, shift = b.fillHoles(&top, at)
	if len(b.copies) == 0 && at < 0 {
		out.Head = append(out.Head, '}')
		return out
	}
	if at < 0 {
		if len(out.Head) > 1 {
			out.Head = append(out.Head, ',')
		}
		out.Head = append(schematree.AppendString(out.Head, b.dialect.Definitions), ":{"...)
		out.Tail = []byte("}}")
	} else {
		out.Head = append(out.Head, '}')
		cut := at + shift
		out.Head, out.Tail = out.Head[:cut:cut], out.Head[cut:]
	}
	all := b.reuseCopies(texts)
	for _, n := range b.referencedCopies(&top) {
		out.Refs = append(out.Refs, all[n])
	}
	return out
}

// publishedHead returns the published schema without its closing brace. at is the offset at which to insert definitions
// into the author's $defs, or -1 if there are no $defs.
func (b *bundle) publishedHead() (out []byte, at int) {
	at = -1
	out = []byte{'{'}
	if d := b.dialect; d != schematree.Draft2020 && b.top.Get("$schema") == nil {
		// The file, the configuration or the target of the $ref declares the dialect, and readers of the published
		// schema see none of them.
		out = append(out, `"$schema":`...)
		out = schematree.AppendString(out, d.URI+"#")
	}
	for _, m := range b.top.Members {
		before := len(out)
		out = b.appendMember(out, b.top, m, b.rewriteRefs)
		if m.Key == b.dialect.Definitions && m.Value.Kind == source.Object && len(out) > before {
			at = len(out) - 1
		}
	}
	return out, at
}

// copyTemplate returns the template for a copy of n.
func (b *bundle) copyTemplate(n *source.Node) *template {
	key := unitKey{n, b.dialect}
	if t := b.set.published.units[key]; t != nil {
		return t
	}
	w := &bundle{set: b.set, dialect: b.dialect}
	alone := b.root.node == b.top // otherwise the unit may contain the top
	if !alone {
		w.top = b.top
	}
	t := &template{json: w.appendSchema(nil, n, true)}
	t.holes = w.holes
	if alone {
		b.set.published.units[key] = t
	}
	return t
}

// assignNames assigns definition names to the schemas that a template refers to, and adds these schemas to b.copies.
func (b *bundle) assignNames(t *template) {
	for i := range t.holes {
		h := &t.holes[i]
		if _, known := b.names[h.unit]; known || b.isInside(h) {
			continue
		}
		b.names[h.unit] = source.UniqueName(h.name, "_", b.taken)
		b.copies = append(b.copies, h.unit)
	}
}

// isInside reports whether a reference refers to the published schema itself or to a subschema of it.
func (b *bundle) isInside(h *hole) bool { return h.root == b.root && within(h.to.Node, b.top) }

// referencedCopies returns the copied schemas that a template refers to, without duplicates.
func (b *bundle) referencedCopies(t *template) []*source.Node {
	var all []*source.Node
	for i := range t.holes {
		if h := &t.holes[i]; !b.isInside(h) && !slices.Contains(all, h.unit) {
			all = append(all, h.unit)
		}
	}
	return all
}

// referenceText returns the reference to insert at a hole.
func (b *bundle) referenceText(h *hole) string {
	switch name := b.names[h.unit]; {
	case b.isInside(h) && !h.moved && h.to.isLocal:
		return h.text
	case b.isInside(h):
		return "#" + escapeFragment(h.to.Node.PointerFrom(b.top))
	case name == h.name:
		return h.usual
	default:
		return "#" + escapeFragment(wire.Pointer(b.dialect.Definitions, name)+h.rest)
	}
}

// fillHoles inserts the references into a template. shift is the number of bytes inserted before the offset place.
func (b *bundle) fillHoles(t *template, place int) (out []byte, shift int) {
	out = make([]byte, 0, len(t.json)+32*len(t.holes))
	from := 0
	for i := range t.holes {
		h := &t.holes[i]
		out = append(out, t.json[from:h.at]...)
		before := len(out)
		out = schematree.AppendString(out, b.referenceText(h))
		if h.at < place {
			shift += len(out) - before
		}
		from = h.at
	}
	return append(out, t.json[from:]...), shift
}

// reuseCopies returns the copies for the templates. It reuses existing copies with equal text and references.
func (b *bundle) reuseCopies(texts []*template) map[*source.Node]*published.Schema {
	all := make(map[*source.Node]*published.Schema, len(texts))
	keys := make([]copyKey, len(texts))
	for i, n := range b.copies {
		keys[i] = copyKey{unitKey{n, b.dialect}, b.names[n], b.unusualRefsKey(texts[i])}
		if known := b.set.published.copies[keys[i]]; known != nil && b.root.node == b.top {
			all[n] = known
		}
	}
	same := true
	fresh := func(i int) {
		n := b.copies[i]
		all[n] = &published.Schema{Name: b.names[n]}
		all[n].Head, _ = b.fillHoles(texts[i], -1)
		b.set.published.origins[all[n]] = n
	}
	known := maps.Clone(all)
	for i, n := range b.copies {
		if all[n] == nil {
			fresh(i)
		}
	}
	refs := func(i int) []*published.Schema {
		var list []*published.Schema
		for _, n := range b.referencedCopies(texts[i]) {
			list = append(list, all[n])
		}
		return list
	}
	for i, n := range b.copies {
		same = same && (known[n] == nil || slices.Equal(known[n].Refs, refs(i)))
	}
	if !same { // a reused copy refers to a copy with different text
		clear(known)
		for i := range b.copies {
			fresh(i)
		}
	}
	for i, n := range b.copies {
		if known[n] == nil {
			all[n].Refs = refs(i)
		}
		if same && b.root.node == b.top {
			b.set.published.copies[keys[i]] = all[n]
		}
	}
	return all
}

// unusualRefsKey returns a key for the references in a template whose text differs from the usual text. If all are
// usual, it returns "".
func (b *bundle) unusualRefsKey(t *template) string {
	var out []byte
	for i := range t.holes {
		switch h := &t.holes[i]; {
		case b.isInside(h):
			out = fmt.Appendf(out, "%d %p %s\n", i, b.top, b.referenceText(h)) // a reference to the top means something else in every bundle
		case b.names[h.unit] != h.name:
			out = fmt.Appendf(out, "%d %s\n", i, b.referenceText(h))
		}
	}
	return string(out)
}

func (b *bundle) appendSchema(out []byte, n *source.Node, moved bool) []byte {
	if n.Kind != source.Object {
		return append(out, n.JSON()...)
	}
	out = append(out, '{')
	for _, m := range n.Members {
		out = b.appendMember(out, n, m, moved)
	}
	return append(out, '}')
}

// GeneratorOnly reports whether a keyword is intended only for the generator and therefore not published.
func GeneratorOnly(key string) bool {
	return key == "x-match" || key == privateKey || strings.HasPrefix(key, "x-go-") || strings.HasPrefix(key, "x-tool-")
}

// appendMember appends a keyword of the schema n and its value, after a comma if necessary.
func (b *bundle) appendMember(out []byte, n *source.Node, m source.Member, moved bool) []byte {
	if GeneratorOnly(m.Key) {
		return out
	}
	if p := b.set.places[n]; n != b.top && (m.Key == "$defs" || m.Key == "definitions") && p != nil && p.root.file.Document && p.root.node == n {
		return out // each definition is copied separately
	}
	if moved && n != b.top && (m.Key == "$id" || m.Key == "$schema") || moved && m.Key == "$anchor" {
		return out
	}
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out = schematree.AppendString(out, m.Key)
	out = append(out, ':')
	switch m.Key {
	case "$ref":
		return b.appendRef(out, n, m.Value, moved)
	case "discriminator":
		return b.discriminator(out, n, m.Value, moved)
	}
	k, _ := b.dialect.Keyword(m.Key)
	return b.appendValue(out, k.Holds, m.Value, moved)
}

// appendValue appends the value of a keyword. s specifies which parts of the value are schemas.
func (b *bundle) appendValue(out []byte, s schematree.Holds, v *source.Node, moved bool) []byte {
	switch {
	case v.Kind == source.Array && (s == schematree.List || s == schematree.SchemaOrList),
		v.Kind == source.Object && (s == schematree.Map || s == schematree.SchemasOrNames):
		return v.AppendParts(out, func(out []byte, part *source.Node) []byte { return b.appendSchema(out, part, moved) })
	case s == schematree.Schema || s == schematree.SchemaOrList:
		return b.appendSchema(out, v, moved)
	}
	return append(out, v.JSON()...)
}

// appendRef appends a reference, or adds a hole for it.
func (b *bundle) appendRef(out []byte, at, ref *source.Node, moved bool) []byte {
	t, d := b.set.ResolveText(at, ref)
	if d != nil {
		return schematree.AppendString(out, ref.Text)
	}
	h := hole{at: len(out), to: t, text: ref.Text, moved: moved, root: b.set.places[t.Node].root}
	h.unit, h.name = b.copiedSchema(h.root, t.Node)
	h.rest = t.Node.PointerFrom(h.unit)
	h.usual = "#" + escapeFragment(wire.Pointer(b.dialect.Definitions, h.name)+h.rest)
	b.holes = append(b.holes, h)
	return out
}

// copiedSchema returns the schema to copy for a reference to n, and its name. It is usually the root of n. In a plain
// JSON Schema file, which can contain hundreds of definitions, it is the definition that contains n.
func (b *bundle) copiedSchema(r *root, n *source.Node) (*source.Node, string) {
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

// discriminator appends OpenAPI's discriminator. The values of its mapping can be references.
func (b *bundle) discriminator(out []byte, n, v *source.Node, moved bool) []byte {
	mapping := v.Get("mapping")
	if mapping == nil || mapping.Kind != source.Object {
		return append(out, v.JSON()...)
	}
	return v.AppendParts(out, func(out []byte, value *source.Node) []byte {
		if value != mapping {
			return append(out, value.JSON()...)
		}
		return mapping.AppendParts(out, func(out []byte, target *source.Node) []byte {
			if target.Kind == source.String && strings.Contains(target.Text, "#") {
				return b.appendRef(out, n, target, moved)
			}
			return append(out, target.JSON()...)
		})
	})
}

// escapeFragment escapes the characters that are invalid in a URI fragment.
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
