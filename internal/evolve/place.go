package evolve

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A place is what one value must satisfy: all of these schemas. None is "anything".
type place []node

func (p place) key() string {
	pointers := make([]string, len(p))
	for i, n := range p {
		pointers[i] = n.pointer
	}
	slices.Sort(pointers)
	return strings.Join(slices.Compact(pointers), " ")
}

// document returns the document that p's schemas are from.
func (p place) document() *document {
	if len(p) == 0 {
		return &document{}
	}
	return p[0].doc
}

// under returns the schemas that stand directly under a keyword.
func (p place) under(keyword string) place {
	var out place
	for _, n := range p {
		if c, ok := n.child(keyword); ok {
			out = append(out, c)
		}
	}
	return out
}

// maxVariants bounds what unions in unions multiply to.
const maxVariants = 256

// expand follows references, merges allOf and multiplies out anyOf and oneOf: the result are the
// variants that a value may be of. Variants that no value satisfies are left out; ok is false when
// there are too many.
func expand(p place) (variants []place, ok bool) {
	variants = []place{nil}
	for _, n := range p {
		variants = product(variants, expandNode(n, nil))
		if len(variants) > maxVariants {
			return nil, false
		}
	}
	return slices.DeleteFunc(variants, func(v place) bool { return v.types() == 0 }), true
}

func expandNode(n node, within []string) []place {
	if allowed, isBool := n.schema.(bool); isBool && !allowed {
		return nil
	}
	if slices.Contains(within, n.pointer) {
		return []place{nil} // a reference to itself adds nothing
	}
	within = append(slices.Clip(within), n.pointer)
	out := []place{{n}}
	for _, keyword := range references {
		ref, ok := n.object()[keyword].(string)
		if !ok {
			continue
		}
		target, ok := n.resolve(ref)
		if !ok {
			continue // stays in the place as a keyword of its own
		}
		if n.doc.draft07 {
			return expandNode(target, within) // siblings do not count there
		}
		out = product(out, expandNode(target, within))
	}
	for _, part := range n.list("allOf") {
		out = product(out, expandNode(part, within))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		alternatives := n.list(keyword)
		if len(alternatives) == 0 {
			continue
		}
		var union []place
		for _, a := range alternatives {
			union = append(union, expandNode(a, within)...)
		}
		out = product(out, union)
	}
	return out
}

func product(a, b []place) []place {
	var out []place
	for _, x := range a {
		for _, y := range b {
			if len(out) > maxVariants {
				return out
			}
			out = append(out, append(slices.Clip(x), y...))
		}
	}
	return out
}

// types is a set of JSON types; integers and other numbers are apart.
type types uint8

const (
	null types = 1 << iota
	boolean
	integer
	fraction
	str
	array
	object
	anyType = 1<<iota - 1
	scalars = boolean | integer | fraction | str
)

var typeNames = map[string]types{
	"null": null, "boolean": boolean, "integer": integer, "number": integer | fraction, "string": str, "array": array, "object": object,
}

func (t types) String() string {
	var names []string
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		if set := typeNames[name]; t&set == set && (name != "integer" || t&fraction == 0) {
			names = append(names, name)
		}
	}
	if t == fraction {
		return "non-integer number"
	}
	return strings.Join(names, " or ")
}

// several reports whether values are of more than one JSON type, null aside.
func (t types) several() bool {
	if t&(integer|fraction) != 0 {
		t = t&^fraction | integer
	}
	t &^= null
	return t&(t-1) != 0
}

func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return str
	case []any:
		return array
	case map[string]any:
		return object
	case json.Number:
		if r, ok := rational(v); ok && r.IsInt() {
			return integer
		}
		return fraction
	}
	return anyType
}

// types returns the types that a value of p may have, by type, enum and const.
func (p place) types() types {
	out := p.declared()
	if values, limited := p.values(); limited {
		var set types
		for _, v := range values {
			set |= typeOf(v)
		}
		out &= set
	}
	return out
}

// declared returns what the keyword type leaves, whatever enum and const list.
func (p place) declared() types {
	out := types(anyType)
	for _, n := range p {
		switch t := n.object()["type"].(type) {
		case string:
			out &= typeNames[t]
		case []any:
			var set types
			for _, name := range t {
				s, _ := name.(string)
				set |= typeNames[s]
			}
			out &= set
		}
	}
	return out
}

// values returns the values that enum and const leave, by their texts; false when there is neither.
func (p place) values() (map[string]any, bool) {
	var out map[string]any
	for _, n := range p {
		list, ok := n.object()["enum"].([]any)
		if ok {
			out = intersect(out, list)
		}
		if v, ok := n.object()["const"]; ok {
			out = intersect(out, []any{v})
		}
	}
	return out, out != nil
}

func intersect(have map[string]any, list []any) map[string]any {
	out := make(map[string]any, len(list))
	for _, v := range list {
		t := text(v)
		if _, ok := have[t]; ok || have == nil {
			out[t] = v
		}
	}
	return out
}

// properties returns the names that p declares, sorted.
func (p place) properties() []string {
	set := map[string]bool{}
	for _, n := range p {
		for _, name := range n.names("properties") {
			if c, ok := n.child("properties", name); ok && c.schema != false {
				set[name] = true
			}
		}
	}
	return slices.Sorted(mapKeys(set))
}

// property returns what a member called name must satisfy.
func (p place) property(name string) place {
	var out place
	for _, n := range p {
		found := false
		if c, ok := n.child("properties", name); ok {
			out, found = append(out, c), true
		}
		for _, text := range n.names("patternProperties") {
			if pattern.Matches(text, name) {
				c, _ := n.child("patternProperties", text)
				out, found = append(out, c), true
			}
		}
		if c, ok := n.child("additionalProperties"); ok && !found {
			out = append(out, c)
		}
	}
	return p.orUnevaluated(out)
}

// orUnevaluated is what members must satisfy that nothing else in p describes.
func (p place) orUnevaluated(described place) place {
	if len(described) == 0 {
		return p.under("unevaluatedProperties")
	}
	return described
}

// pattern returns what members must satisfy whose names match exactly that pattern. Where p does not
// have it they are additional members; with sure, only if no other pattern may claim them.
func (p place) pattern(pattern string, sure bool) (place, bool) {
	var out place
	found := false
	for _, n := range p {
		if c, ok := n.child("patternProperties", pattern); ok {
			out, found = append(out, c), true
		} else if c, ok := n.child("additionalProperties"); ok && (!sure || len(n.names("patternProperties")) == 0) {
			out = append(out, c)
		}
	}
	return p.orUnevaluated(out), found
}

// additional returns what members without a declaration must satisfy.
func (p place) additional() place {
	var out place
	for _, n := range p {
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
			if c, ok := n.child(keyword); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// closed reports whether p allows no members but the declared ones.
func (p place) closed() bool {
	return forbidden(p.additional())
}

// mapped reports whether p describes members of any name by a schema, as a map does.
func (p place) mapped() bool {
	return slices.ContainsFunc(p.additional(), func(n node) bool { return len(n.object()) > 0 })
}

// tuple returns how many items p describes one by one.
func (p place) tuple() int {
	most := 0
	for _, n := range p {
		most = max(most, len(n.list("prefixItems")), len(n.list("items")))
	}
	return most
}

// item returns what the item at i must satisfy; i = tuple() stands for all that follow.
func (p place) item(i int) place {
	var out place
	for _, n := range p {
		prefix, rest := "prefixItems", "items"
		if _, isList := n.object()["items"].([]any); isList {
			prefix, rest = "items", "additionalItems" // before 2020-12
		}
		if c, ok := n.child(prefix, strconv.Itoa(i)); ok {
			out = append(out, c)
		} else if c, ok := n.child(rest); ok {
			out = append(out, c)
		}
	}
	return out
}

// required returns the names that p requires.
func (p place) required() map[string]bool {
	out := map[string]bool{}
	for _, n := range p {
		list, _ := n.object()["required"].([]any)
		for _, name := range list {
			if s, ok := name.(string); ok {
				out[s] = true
			}
		}
	}
	return out
}

// texts returns the values of a keyword in p, by their texts with what they refer to.
func (p place) texts(keyword string) map[string]bool {
	out := map[string]bool{}
	for _, n := range p {
		if named[keyword] {
			if v, ok := n.object()[keyword]; ok { // as in a schema, where its members have free names
				n.schema, n.pointer = map[string]any{keyword: v}, n.pointer+wire.Pointer(keyword)
				out[n.closure(map[string]bool{})] = true
			}
		} else if c, ok := n.child(keyword); ok {
			out[c.closure(map[string]bool{})] = true
		}
	}
	return out
}

// foreign returns the references of p that lead out of its document.
func (p place) foreign() map[string]bool {
	out := map[string]bool{}
	for _, n := range p {
		for _, keyword := range references {
			if ref, ok := n.object()[keyword].(string); ok {
				if _, found := n.resolve(ref); !found {
					out[ref] = true
				}
			}
		}
	}
	return out
}
