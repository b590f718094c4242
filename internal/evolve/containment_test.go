package evolve_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// drawWild draws schemas that nobody writes, from few names and values so that they meet often.
func drawWild(t *rapid.T, depth int) schema {
	s := schema{}
	if rapid.IntRange(0, 3).Draw(t, "typed") > 0 {
		s["type"] = rapid.SampledFrom([]any{"string", "integer", "number", "boolean", "array", "object", []any{"string", "null"}, []any{"object", "string"}, []any{"array", "integer"}}).Draw(t, "type")
	}
	for range rapid.IntRange(0, 2).Draw(t, "keywords") {
		drawKeyword(t, s, depth)
	}
	return s
}

var wildNames = []string{"a", "b", "ab"}

func drawKeyword(t *rapid.T, s schema, depth int) {
	small := func() int { return rapid.IntRange(0, 3).Draw(t, "n") }
	name := func() string { return rapid.SampledFrom(wildNames).Draw(t, "name") }
	simple := []string{"enum", "const", "minimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"minItems", "maxItems", "uniqueItems", "required", "minProperties", "maxProperties", "dependentRequired", "closed"}
	nested := []string{"properties", "properties", "items", "prefixItems", "additionalProperties", "patternProperties", "propertyNames",
		"contains", "allOf", "anyOf", "oneOf", "not", "if"}
	keyword := rapid.SampledFrom(slices.Concat(simple, nested)).Draw(t, "keyword")
	if depth <= 0 {
		keyword = rapid.SampledFrom(simple).Draw(t, "keyword")
	}
	inner := func() schema { return drawWild(t, depth-1) }
	switch keyword {
	case "enum":
		s["enum"] = []any{drawJSON(t, 0), drawJSON(t, 0)}
	case "const":
		s["const"] = drawJSON(t, 0)
	case "multipleOf":
		s[keyword] = small() + 1
	case "pattern":
		s[keyword] = rapid.SampledFrom([]string{"a", "^a", "b$"}).Draw(t, "pattern")
	case "uniqueItems":
		s[keyword] = rapid.Bool().Draw(t, "unique")
	case "required":
		s[keyword] = []any{name()}
	case "dependentRequired":
		s[keyword] = schema{name(): []any{name()}}
	case "closed":
		s["additionalProperties"] = false
	case "properties":
		s[keyword] = schema{name(): inner(), name(): inner()}
	case "patternProperties":
		s[keyword] = schema{rapid.SampledFrom([]string{"^a", "b$"}).Draw(t, "pattern"): inner()}
	case "prefixItems":
		s[keyword] = []any{inner()}
	case "allOf", "anyOf", "oneOf":
		s[keyword] = []any{inner(), inner()}
	case "items", "additionalProperties", "propertyNames", "contains", "not":
		s[keyword] = inner()
	case "if":
		s["if"], s["then"] = inner(), inner()
	default:
		s[keyword] = small()
	}
}

// drawJSON draws a value from as small a world.
func drawJSON(t *rapid.T, depth int) any {
	kinds := []string{"string", "integer", "fraction", "boolean", "null"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "object", "object")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "string":
		return rapid.SampledFrom([]string{"", "a", "b", "ab", "aab", "abab"}).Draw(t, "string")
	case "integer":
		return rapid.IntRange(-1, 5).Draw(t, "integer")
	case "fraction":
		return 1.5
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "array":
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return drawJSON(t, depth-1) }), 0, 3).Draw(t, "array")
	case "object":
		out := schema{}
		for _, name := range wildNames {
			if rapid.Bool().Draw(t, "present") {
				out[name] = drawJSON(t, depth-1)
			}
		}
		return out
	}
	return nil
}

// vary changes a schema in one or two places, as authors and anybody else would.
func vary(t *rapid.T, s schema) schema {
	new := clone(s)
	for range rapid.IntRange(1, 2).Draw(t, "variations") {
		places := widerFormats(new)
		at := places[rapid.IntRange(0, len(places)-1).Draw(t, "place")]
		keys := slices.Sorted(maps.Keys(at))
		if len(keys) > 0 && rapid.Bool().Draw(t, "drop") {
			delete(at, rapid.SampledFrom(keys).Draw(t, "keyword"))
		} else {
			drawKeyword(t, at, 1)
		}
		new = clone(new)
	}
	return new
}

func drawPair(t *rapid.T) (old, new schema) {
	if rapid.Bool().Draw(t, "wild") {
		old = clone(drawWild(t, 2))
	} else {
		old = clone(drawSchema(t, 2))
	}
	return old, vary(t, old)
}

func difference(changes []evolve.Change, categories ...evolve.Category) []evolve.Change {
	return slices.DeleteFunc(changes, func(c evolve.Change) bool { return !slices.Contains(categories, c.Category) })
}

// contained fails when a value that is valid by one schema is not by the other.
func contained(t *rapid.T, from, to schema) {
	a, err1 := validate.Compile(raw(from))
	b, err2 := validate.Compile(raw(to))
	if err1 != nil || err2 != nil {
		return
	}
	for range 8 {
		var value any
		if rapid.Bool().Draw(t, "by schema") {
			value = drawSimilar(t, from, 4)
		} else {
			value = drawJSON(t, 2)
		}
		text := raw(value)
		if a.Validate(text) != nil {
			continue
		}
		if err := b.Validate(text); err != nil {
			t.Fatalf("%s is valid by the first and not by the second: %v\nfirst  %s\nsecond %s", text, err, raw(from), raw(to))
		}
	}
}

// drawSimilar draws a value that s may accept, by the keywords that it has, with strays.
func drawSimilar(t *rapid.T, s schema, depth int) any {
	if depth <= 0 || rapid.IntRange(0, 7).Draw(t, "stray") == 0 {
		return drawJSON(t, 1)
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
		if list, ok := s[keyword].([]any); ok && rapid.IntRange(0, 3).Draw(t, "branch") > 0 {
			return drawSimilar(t, rapid.SampledFrom(list).Draw(t, "variant").(schema), depth)
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if values, ok := s["enum"].([]any); ok && len(values) > 0 {
		return rapid.SampledFrom(values).Draw(t, "value")
	}
	kinds := asList(s["type"])
	if kind, ok := s["type"].(string); ok {
		kinds = []any{kind}
	}
	_, isObject := s["properties"]
	_, isArray := s["items"]
	switch {
	case slices.Contains(kinds, "object") || isObject:
		out, _ := drawJSON(t, 1).(schema)
		if out == nil {
			out = schema{}
		}
		properties, _ := s["properties"].(schema)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if inner, ok := properties[name].(schema); ok && rapid.IntRange(0, 2).Draw(t, "present") > 0 {
				out[name] = drawSimilar(t, inner, depth-1)
			}
		}
		return out
	case slices.Contains(kinds, "array") || isArray:
		inner, _ := s["items"].(schema)
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, drawSimilar(t, inner, depth-1))
		}
		return list
	case slices.Contains(kinds, "string"):
		return rapid.SampledFrom([]string{"", "a", "b", "ab", "aab", "abab"}).Draw(t, "string")
	case slices.Contains(kinds, "integer"), slices.Contains(kinds, "number"):
		return rapid.IntRange(-4, 10).Draw(t, "number")
	}
	return drawJSON(t, 2)
}

// Without any difference, arguments that were valid still are: those that are not declared too.
func TestInputContainmentProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, new := drawPair(t)
		if len(differ(string(raw(old)), string(raw(new)), false)) == 0 {
			contained(t, old, new)
		}
	})
}

// Without any difference, payloads of the new schema are valid by the old one.
func TestPayloadContainmentProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, new := drawPair(t)
		if len(differ(string(raw(old)), string(raw(new)), true)) == 0 {
			contained(t, new, old)
		}
	})
}

// Without a WIRE difference, payloads of the new schema have the types of the old one, whatever
// their values. A union by JSON type keeps what is of none of its types, which only STRICT reports.
func TestPayloadTypesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, new := drawPair(t)
		changes := differ(string(raw(old)), string(raw(new)), true)
		kept := slices.ContainsFunc(changes, func(c evolve.Change) bool { return strings.HasPrefix(c.Reason, "the union was ") })
		if !kept && len(difference(changes, evolve.Wire)) == 0 {
			contained(t, new, loose(old))
		}
	})
}

// loose is what a type made from s accepts: types, required members and nothing about values. Enums,
// constants and tagged unions are open.
func loose(s schema) schema {
	out := schema{}
	for keyword, v := range s {
		switch keyword {
		case "type", "required":
			out[keyword] = v
		case "additionalProperties", "items":
			if inner, ok := v.(schema); ok {
				out[keyword] = loose(inner)
			}
		case "properties", "patternProperties":
			members := schema{}
			for name, inner := range v.(schema) {
				members[name] = loose(inner.(schema))
			}
			out[keyword] = members
		case "allOf", "anyOf", "oneOf", "prefixItems":
			var list []any
			known := []any{}
			for _, inner := range v.([]any) {
				list = append(list, loose(inner.(schema)))
				if properties, ok := inner.(schema)["properties"].(schema); ok && keyword == "oneOf" && properties["tag"] != nil {
					known = append(known, properties["tag"].(schema)["const"])
				}
			}
			if len(known) > 1 { // an unknown tag is kept as it is
				list = append(list, schema{"properties": schema{"tag": schema{"not": schema{"enum": known}}}, "required": []any{"tag"}})
			}
			if keyword == "oneOf" {
				keyword = "anyOf"
			}
			if other, ok := out[keyword].([]any); ok && keyword == "anyOf" {
				out["allOf"] = append(append([]any{}, asList(out["allOf"])...), schema{"anyOf": other}, schema{"anyOf": list})
				delete(out, "anyOf")
				continue
			}
			if keyword == "allOf" {
				list = append(asList(out["allOf"]), list...)
			}
			out[keyword] = list
		}
	}
	if values, ok := s["enum"].([]any); ok && s["type"] == nil {
		var types []any
		for _, v := range values {
			types = append(types, schema{"type": jsonType(v)})
		}
		out["allOf"] = append(asList(out["allOf"]), schema{"anyOf": types})
	}
	return out
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func jsonType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case []any:
		return "array"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "object"
}
