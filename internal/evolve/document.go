package evolve

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A document is one schema with everything that a reference in it can name.
type document struct {
	root    node
	draft07 bool
	size    int             // schemas, about
	named   map[string]node // by absolute URI, with "#name" for anchors
}

// A node is one schema in a document: an object or a boolean.
type node struct {
	pointer string // where it is in its document; identifies it
	schema  any
	base    *url.URL // of its schema resource
	doc     *document
	home    *home // of a schema whose definitions are apart
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
		n = node{pointer: n.pointer + wire.Pointer(token), schema: next, base: n.base, doc: n.doc, home: n.home}
		n.base = n.ownBase()
	}
	return n, true
}

// ownBase is the base URI inside n, which its $id may change.
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

// names returns the sorted keys of the object under keyword.
func (n node) names(keyword string) []string {
	m, _ := n.object()[keyword].(map[string]any)
	return slices.Sorted(mapKeys(m))
}

func readDocument(raw json.RawMessage) (*document, error) {
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
	d.root = node{schema: v, base: &url.URL{Scheme: "mcpe", Path: "/schema"}, doc: d}
	dialect, _ := d.root.object()["$schema"].(string)
	d.draft07 = strings.Contains(dialect, "draft-07")
	d.named[d.root.base.String()] = d.root
	d.root.base = d.root.ownBase()
	d.index(d.root)
	return d, nil
}

// literals are keywords whose values are no schemas.
var literals = map[string]bool{"enum": true, "const": true, "default": true, "examples": true}

func (d *document) index(n node) {
	n.each(func(n node) {
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

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// references are the keywords that lead to another schema.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// resolve finds what a reference in n names; false when that is not in the document.
func (n node) resolve(ref string) (node, bool) {
	d := n.doc
	if d == nil {
		return node{}, false
	}
	if n.home != nil {
		return n.home.resolve(d, ref)
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
		for _, token := range strings.Split(fragment[1:], "/") {
			if target, ok = target.child(unescape.Replace(token)); !ok {
				return node{}, false
			}
		}
	}
	return target, ok
}

// closure is the text of n and of all that its references lead to, so that equal closures mean the
// same.
func (n node) closure(seen map[string]bool) string {
	var out strings.Builder
	n.writeClosure(&out, seen)
	return out.String()
}

func (n node) writeClosure(out *strings.Builder, seen map[string]bool) {
	if seen[n.pointer] {
		out.WriteString(n.pointer)
		return
	}
	seen[n.pointer] = true
	out.WriteString(text(meaning(n.schema)))
	n.each(func(inner node) {
		for _, keyword := range references {
			if ref, ok := inner.object()[keyword].(string); ok {
				if target, ok := inner.resolve(ref); ok {
					out.WriteString("\n" + ref + " ")
					target.writeClosure(out, seen)
				}
			}
		}
	})
}

// annotations are the keywords that allow and forbid nothing. Definitions count where they are
// referred to.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "readOnly": true, "writeOnly": true,
	"$comment": true, "$defs": true, "definitions": true,
}

// named are the keywords whose members are named freely.
var named = map[string]bool{"properties": true, "patternProperties": true, "dependentSchemas": true, "dependencies": true, "dependentRequired": true}

// meaning is a schema, or a list of them, without annotations.
func meaning(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = meaning(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			switch members, isMap := inner.(map[string]any); {
			case annotations[key] || strings.HasPrefix(key, "x-"):
			case literals[key]:
				out[key] = inner
			case named[key] && isMap:
				list := make(map[string]any, len(members))
				for name, member := range members {
					list[name] = meaning(member)
				}
				out[key] = list
			default:
				out[key] = meaning(inner)
			}
		}
		return out
	}
	return v
}

// each calls f for n and everything in it, in a fixed order.
func (n node) each(f func(node)) {
	f(n)
	switch v := n.schema.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(mapKeys(v)) {
			if c, ok := n.child(key); ok && !literals[key] {
				c.each(f)
			}
		}
	case []any:
		for i := range v {
			if c, ok := n.child(strconv.Itoa(i)); ok {
				c.each(f)
			}
		}
	}
}

// text writes a JSON value so that equal values are equal texts: members sorted, numbers reduced.
func text(v any) string {
	b, err := json.Marshal(reduce(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func reduce(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := rational(v); ok {
			digits, _ := r.FloatPrec() // exact: JSON numbers are decimals
			return json.RawMessage(r.FloatString(digits))
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = reduce(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = reduce(item)
		}
		return out
	}
	return v
}

func rational(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}
