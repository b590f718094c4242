package evolve

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A document is a schema with all possible targets of its references.
type document struct {
	root    node
	draft07 bool
	size    int             // number of schemas
	named   map[string]node // by absolute URI, with "#name" for anchors
}

// A node is one schema in a document: an object or a boolean.
type node struct {
	pointer string // place in the document; identifies the node
	schema  any
	base    *url.URL // of its schema resource
	doc     *document
	scope   *scope // of a schema with separate definitions
}

func (n node) object() map[string]any {
	m, _ := n.schema.(map[string]any)
	return m
}

func (n node) child(tokens ...string) (node, bool) {
	for _, token := range tokens {
		var next any
		switch v := n.schema.(type) {
		case map[string]any:
			next = v[token]
		case []any:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
				next = v[i]
			}
		}
		if next == nil {
			return node{}, false
		}
		n = node{pointer: n.pointer + wire.Pointer(token), schema: next, base: n.base, doc: n.doc, scope: n.scope}
		n.base = n.ownBase()
	}
	return n, true
}

// ownBase returns the base URI for references inside n, which an $id can change.
func (n node) ownBase() *url.URL {
	id, _ := n.object()["$id"].(string)
	if id == "" || strings.HasPrefix(id, "#") {
		return n.base
	}
	u, err := url.Parse(id)
	if err != nil {
		return n.base
	}
	u = n.base.ResolveReference(u)
	u.Fragment = ""
	return u
}

// list returns the schemas in the array under keyword.
func (n node) list(keyword string) []node {
	items, _ := n.object()[keyword].([]any)
	var out []node
	for i := range items {
		if c, ok := n.child(keyword, strconv.Itoa(i)); ok {
			out = append(out, c)
		}
	}
	return out
}

// sortedKeys returns the sorted keys of the object under keyword.
func (n node) sortedKeys(keyword string) []string {
	m, _ := n.object()[keyword].(map[string]any)
	return sortedKeys(m)
}

// Find returns the member key.
func (n node) Find(name string) (node, bool) {
	if n.object() == nil {
		return node{}, false
	}
	return n.child(name)
}

// Elements returns the elements of an array, or false if n is not an array.
func (n node) Elements() (all []node, ok bool) {
	items, ok := n.schema.([]any)
	for i := range items {
		c, _ := n.child(strconv.Itoa(i))
		all = append(all, c)
	}
	return all, ok
}

// All yields the members of an object with their names.
func (n node) All() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		for _, name := range sortedKeys(n.object()) {
			if c, ok := n.child(name); ok && !yield(name, c) {
				return
			}
		}
	}
}

// Value returns the schema.
func (n node) Value() any { return n.schema }

// Identity returns the pointer of n.
func (n node) Identity() any { return n.pointer }

// A resolver resolves references.
type resolver struct{}

// Target returns the schema that a keyword of n refers to.
func (resolver) Target(n node, keyword string) (node, bool) {
	if ref, ok := n.object()[keyword].(string); ok {
		return n.resolve(ref)
	}
	return node{}, false
}

// RefAlone reports whether n is in draft-07.
func (resolver) RefAlone(n node) bool { return n.doc != nil && n.doc.draft07 }

// readDocument parses a schema. at is the pointer of its root.
func readDocument(raw json.RawMessage, at string) (*document, error) {
	v, err := validate.Decode(raw)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case map[string]any, bool:
	default:
		return nil, fmt.Errorf("a schema is an object or a boolean")
	}
	d := &document{named: map[string]node{}}
	d.root = node{pointer: at, schema: v, base: &url.URL{Scheme: "mcpe", Path: "/schema"}, doc: d}
	d.draft07 = dialectOf(v) == schematree.Draft07
	d.named[d.root.base.String()] = d.root
	d.root.base = d.root.ownBase()
	d.index(d.root)
	return d, nil
}

// dialectOf returns the supported dialect that a schema names, or nil.
func dialectOf(schema any) *schematree.Dialect {
	m, _ := schema.(map[string]any)
	uri, _ := m["$schema"].(string)
	return schematree.DialectOf(uri)
}

func (d *document) index(n node) {
	n.visitAll(func(n node) {
		m := n.object()
		d.size++
		if id, _ := m["$id"].(string); strings.HasPrefix(id, "#") { // an anchor of draft-07
			d.named[n.base.String()+id] = n
		} else if id != "" {
			d.named[n.base.String()] = n
		}
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if name, _ := m[keyword].(string); name != "" {
				d.named[n.base.String()+"#"+name] = n
			}
		}
	})
}

// resolve returns the target of a reference in n, or false if the document does not contain it.
func (n node) resolve(ref string) (node, bool) {
	d := n.doc
	if d == nil {
		return node{}, false
	}
	if n.scope != nil {
		return n.scope.resolve(d, ref)
	}
	u, err := url.Parse(ref)
	if err != nil {
		return node{}, false
	}
	u = n.base.ResolveReference(u)
	fragment := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		target, ok := d.named[u.String()+"#"+fragment]
		return target, ok
	}
	target, ok := d.named[u.String()]
	if ok && fragment != "" {
		return schematree.At(target, fragment)
	}
	return target, ok
}

// withOnly returns a copy of n with a single keyword.
func (n node) withOnly(keyword string) node {
	n.schema, n.pointer = map[string]any{keyword: n.object()[keyword]}, n.pointer+wire.Pointer(keyword)
	return n
}

// isAnnotation reports whether a keyword has no effect on validity. Definitions have an effect only through references.
func isAnnotation(keyword string) bool {
	k, _ := schematree.Any.Keyword(keyword)
	return k.Role == schematree.Annotates || strings.HasPrefix(keyword, "x-")
}

// visitAll calls f for n and the schemas in it, in a fixed order.
func (n node) visitAll(f func(node)) {
	f(n)
	schematree.Each(schematree.Any, n, func(_, _ string, inner node) { inner.visitAll(f) })
}

// canonicalText returns the JSON text of v with sorted members and numbers in a canonical notation.
func canonicalText(v any) string {
	b, err := json.Marshal(canonicalValue(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func canonicalValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := schematree.Rational(v); ok {
			return json.RawMessage(schematree.Decimal(r))
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = canonicalValue(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = canonicalValue(item)
		}
		return out
	}
	return v
}
