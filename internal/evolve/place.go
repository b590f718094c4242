package evolve

import (
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A place holds the schemas that one value must satisfy. An empty place accepts anything.
type place []node

func (p place) key() string {
	pointers := make([]string, len(p))
	for i, n := range p {
		pointers[i] = n.pointer
	}
	slices.Sort(pointers)
	return strings.Join(slices.Compact(pointers), " ")
}

// document returns the document of p's schemas.
func (p place) document() *document {
	if len(p) == 0 {
		return &document{}
	}
	return p[0].doc
}

// subschemas returns the schemas under a keyword in the schemas of p.
func (p place) subschemas(keyword string) place {
	var out place
	for _, n := range p {
		if c, ok := n.child(keyword); ok {
			out = append(out, c)
		}
	}
	return out
}

// maxVariants limits the number of variants from nested unions.
const maxVariants = 256

// expand resolves references, merges allOf, and combines the alternatives of anyOf and oneOf. It returns the variants
// that at least one value can satisfy. ok is false if there are too many.
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
	if target, ok := (resolver{}).Target(n, "$ref"); ok && (resolver{}).RefAlone(n) {
		return expandNode(target, within)
	}
	out := []place{{n}} // an unresolvable reference stays in the place
	schematree.Applied(resolver{}, n, func(part node) { out = product(out, expandNode(part, within)) }, schematree.Unconditional...)
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

// hasSeveral reports whether the set contains more than one JSON type other than null.
func hasSeveral(t schematree.Types) bool {
	if t&schematree.Number != 0 {
		t = t&^schematree.Fraction | schematree.Integer
	}
	t &^= schematree.Null
	return t&(t-1) != 0
}

// checks reports whether the keyword checks values of one of the types.
func checks(keyword string, t schematree.Types) bool {
	k, _ := schematree.Any.Keyword(keyword)
	return t&k.Checks != 0
}

// types returns the types that the keywords type, enum and const of p allow.
func (p place) types() schematree.Types {
	out := p.declaredTypes()
	if values, limited := p.values(); limited {
		var set schematree.Types
		for _, v := range values {
			set |= schematree.TypeOf(v)
		}
		out &= set
	}
	return out
}

// declaredTypes returns the types that the keyword type allows. It ignores enum and const.
func (p place) declaredTypes() schematree.Types {
	out := schematree.AnyType
	for _, n := range p {
		out &= schematree.Declared(n)
	}
	return out
}

// values maps the JSON text of each value that enum and const allow to the value. It returns false if p has neither
// keyword.
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
		t := canonicalText(v)
		if _, ok := have[t]; ok || have == nil {
			out[t] = v
		}
	}
	return out
}

// properties returns the sorted names of the members that p declares.
func (p place) properties() []string {
	set := map[string]bool{}
	for _, n := range p {
		for _, name := range n.sortedKeys("properties") {
			if c, ok := n.child("properties", name); ok && c.schema != false {
				set[name] = true
			}
		}
	}
	return sortedKeys(set)
}

// property returns the schemas for a member.
func (p place) property(name string) place { return p.orUnevaluated(schematree.Member(p, name)) }

// orUnevaluated returns described or, if it is empty, the schemas in unevaluatedProperties.
func (p place) orUnevaluated(described place) place {
	if len(described) == 0 {
		return p.subschemas("unevaluatedProperties")
	}
	return described
}

// pattern returns the schemas for members that match the pattern, and whether p has the pattern. A schema without the
// pattern contributes its additionalProperties. If sure is set, it does so only if it has no other patterns.
func (p place) pattern(pattern string, sure bool) (place, bool) {
	var out place
	found := false
	for _, n := range p {
		if c, ok := n.child("patternProperties", pattern); ok {
			out, found = append(out, c), true
		} else if c, ok := n.child("additionalProperties"); ok && (!sure || len(n.sortedKeys("patternProperties")) == 0) {
			out = append(out, c)
		}
	}
	return p.orUnevaluated(out), found
}

// additional returns the schemas for undeclared members.
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

// isClosed reports whether p allows only declared members.
func (p place) isClosed() bool {
	return isForbidden(p.additional())
}

// isMap reports whether p has a schema for members of any name.
func (p place) isMap() bool {
	return slices.ContainsFunc(p.additional(), func(n node) bool { return len(n.object()) > 0 })
}

// tupleLen returns the number of items that p describes individually.
func (p place) tupleLen() int {
	most := 0
	for _, n := range p {
		first, _, _ := schematree.Elements(n)
		most = max(most, len(first))
	}
	return most
}

// item returns the schemas for the item at index i. The index tupleLen() represents all remaining items.
func (p place) item(i int) place { return schematree.Element(p, i) }

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

// keywordClosures returns the closures of a keyword's values in p.
func (p place) keywordClosures(keyword string) map[string]bool {
	out := map[string]bool{}
	for _, n := range p {
		c, ok := n.child(keyword)
		if k, _ := schematree.Any.Keyword(keyword); c.object() != nil && k.Holds != schematree.Schema {
			c = n.withOnly(keyword) // the member names are free
		}
		if ok {
			out[c.closure()] = true
		}
	}
	return out
}

// externalRefs returns the references of p to other documents.
func (p place) externalRefs() map[string]bool {
	out := map[string]bool{}
	for _, n := range p {
		for _, keyword := range schematree.References {
			if ref, ok := n.object()[keyword].(string); ok {
				if _, found := n.resolve(ref); !found {
					out[ref] = true
				}
			}
		}
	}
	return out
}
