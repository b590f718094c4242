package ir

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// inferences says which type follows from a keyword when type is not written.
var inferences = []struct {
	typ  string
	from []string
}{
	{"object", []string{"properties", "additionalProperties", "required", "minProperties", "maxProperties", "propertyNames"}},
	{"array", []string{"items", "minItems", "maxItems", "uniqueItems", "contains"}},
	{"string", []string{"format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"}},
	{"number", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
}

// typesOf returns the types that a schema allows, null apart.
func typesOf(n *source.Node) (types []string, null bool) {
	switch t := n.Get("type"); {
	case t == nil:
		for _, inf := range inferences {
			if slices.ContainsFunc(inf.from, func(k string) bool { return n.Get(k) != nil }) {
				return []string{inf.typ}, false
			}
		}
		return nil, false
	case t.Kind == source.String:
		types = []string{t.Text}
	default:
		for _, item := range t.Items {
			types = append(types, item.Text)
		}
	}
	if i := slices.Index(types, "null"); i >= 0 {
		return slices.Delete(types, i, i+1), true
	}
	return types, false
}

// allowsNull is the answer for a schema whose Go type the author chose.
func allowsNull(n *source.Node) bool {
	if _, null := typesOf(n); null {
		return true
	}
	return slices.ContainsFunc(variantsOf(n), isNull)
}

// isNull reports whether a schema allows null and nothing else.
func isNull(n *source.Node) bool {
	if t := n.Get("type"); t != nil {
		return t.Kind == source.String && t.Text == "null"
	}
	if c := n.Get("const"); c != nil {
		return c.Kind == source.Null
	}
	e := n.Get("enum")
	return e != nil && len(e.Items) == 1 && e.Items[0].Kind == source.Null
}

// shaping are the keywords that decide which Go type a value has, beside type.
var shaping = []string{
	"properties", "additionalProperties", "patternProperties", "items", "prefixItems", "enum", "const",
	"oneOf", "anyOf", "$ref", "contentEncoding",
}

// structural reports whether n describes a shape beside an allOf.
func structural(n *source.Node) bool {
	return slices.ContainsFunc(shaping, func(k string) bool { return n.Get(k) != nil })
}

// refusals are the keywords without a Go form, each with what makes it harmless.
var refusals = []struct {
	keyword  string
	harmless func(n, value *source.Node) bool
}{
	{"allOf", func(n, v *source.Node) bool {
		return onlyElement(v) != nil && !structural(n) || refining(n, v.Items)
	}},
	{"patternProperties", func(_, v *source.Node) bool { return len(v.Members) == 0 }},
	{"prefixItems", nil},
	{"items", func(_, v *source.Node) bool { return v.Kind != source.Array }},
	{"if", func(n, v *source.Node) bool { return true }}, // only then and else add something
	{"then", func(n, v *source.Node) bool { return n.Get("if") == nil || refining(n, []*source.Node{v}) }},
	{"else", func(n, v *source.Node) bool { return n.Get("if") == nil || refining(n, []*source.Node{v}) }},
	{"dependentSchemas", refinesAll},
	{"dependencies", refinesAll},
	{"unevaluatedProperties", func(_, v *source.Node) bool { return v.Kind == source.Bool && !v.True() }},
	{"$dynamicRef", nil},
	{"$recursiveRef", nil},
}

func refinesAll(n, v *source.Node) bool {
	for _, m := range v.Members {
		if m.Value.Kind != source.Array && !refining(n, []*source.Node{m.Value}) {
			return false
		}
	}
	return true
}

// unsupported reports the keywords of n that have no Go form.
func (b *builder) unsupported(n *source.Node) bool {
	found := false
	for _, r := range refusals {
		v := n.Get(r.keyword)
		if v == nil || r.harmless != nil && r.harmless(n, v) {
			continue
		}
		b.refuse(n.Member(r.keyword).KeyRange, r.keyword)
		found = true
	}
	if n.Get("$ref") == nil && variantsOf(n) == nil {
		return found
	}
	return b.besideVariants(n) || found
}

// besideVariants reports what stands beside a $ref or union and would have to be merged with it.
func (b *builder) besideVariants(n *source.Node) bool {
	found := false
	variants := variantsOf(n)
	if n.Get("$ref") == nil && (refining(n, variants) || isEnum(variants)) {
		return false
	}
	for _, k := range []string{"properties", "additionalProperties", "items", "enum", "const", "allOf", "oneOf", "anyOf"} {
		alone := n.Get("$ref") == nil && (k == "oneOf" && n.Get("anyOf") == nil || k == "anyOf" && n.Get("oneOf") == nil)
		if v := n.Member(k); v != nil && !alone {
			b.refuse(v.KeyRange, k+" beside a "+combined(n))
			found = true
		}
	}
	return found
}

func combined(n *source.Node) string {
	for _, k := range []string{"$ref", "oneOf", "anyOf"} {
		if n.Get(k) != nil {
			return k
		}
	}
	return "union"
}

func (b *builder) refuse(at source.Range, keyword string) {
	b.report(source.New("MCPE201", at, "%s is not supported here", keyword).
		WithHint("give the schema x-go-type: encoding/json.RawMessage"))
}

// narrowing are the keywords that only narrow which values are valid.
var narrowing = map[string]bool{
	"required": true, "minProperties": true, "maxProperties": true, "dependentRequired": true, "propertyNames": true,
	"const": true, "enum": true, "type": true, "format": true, "pattern": true, "minLength": true, "maxLength": true,
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minItems": true, "maxItems": true, "uniqueItems": true, "contains": true, "minContains": true, "maxContains": true,
	"not": true, "title": true, "description": true, "$comment": true, "examples": true, "default": true, "deprecated": true,
}

// refining reports whether parts only narrow the values that n itself describes: they name no
// member that n does not describe, so that validation alone is concerned. That is only so of an
// object with properties, or of a scalar with its type.
func refining(n *source.Node, parts []*source.Node) bool {
	if n.Get("type") == nil && n.Get("properties") == nil {
		return false
	}
	if len(parts) == 0 || isEnum(parts) {
		return false
	}
	props := n.Get("properties")
	return !slices.ContainsFunc(parts, func(p *source.Node) bool { return !narrows(p, props) })
}

func narrows(part, props *source.Node) bool {
	for _, m := range part.Members {
		if m.Key == "properties" {
			for _, p := range m.Value.Members {
				if props.Get(p.Key) == nil || !narrows(p.Value, nil) {
					return false
				}
			}
			continue
		}
		if m.Key == "required" && !requiresOnly(m.Value, props) {
			return false
		}
		if !narrowing[m.Key] {
			return false
		}
	}
	return true
}

func requiresOnly(required, props *source.Node) bool {
	return !slices.ContainsFunc(required.Items, func(r *source.Node) bool { return props.Get(r.Text) == nil })
}

func onlyElement(n *source.Node) *source.Node {
	if n != nil && n.Kind == source.Array && len(n.Items) == 1 {
		return n.Items[0]
	}
	return nil
}

// variantsOf returns the variants of oneOf, or of anyOf.
func variantsOf(n *source.Node) []*source.Node {
	for _, k := range []string{"oneOf", "anyOf"} {
		if v := n.Get(k); v != nil && v.Kind == source.Array {
			return v.Items
		}
	}
	return nil
}

func listed(words []string) string { return strings.Join(words, " or ") }
