package evolve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

type schema = map[string]any

// drawSchema draws a schema as authors write them.
func drawSchema(t *rapid.T, depth int) schema {
	kinds := []string{"string", "enum", "integer", "boolean", "nullable"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "union", "map")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "enum":
		values := []any{}
		for i := range rapid.IntRange(1, 3).Draw(t, "values") {
			values = append(values, fmt.Sprintf("v%d", i))
		}
		return schema{"type": "string", "enum": values}
	case "integer":
		return schema{"type": "integer", "minimum": rapid.IntRange(-3, 0).Draw(t, "minimum"), "maximum": rapid.IntRange(1, 9).Draw(t, "maximum")}
	case "boolean":
		return schema{"type": "boolean"}
	case "nullable":
		if rapid.Bool().Draw(t, "by type") {
			return schema{"type": []any{"string", "null"}}
		}
		return schema{"anyOf": []any{schema{"type": "integer"}, schema{"type": "null"}}}
	case "array":
		return schema{"type": "array", "items": drawSchema(t, depth-1), "maxItems": rapid.IntRange(1, 4).Draw(t, "maxItems")}
	case "map":
		return schema{"type": "object", "additionalProperties": drawSchema(t, depth-1)}
	case "union":
		var variants []any
		for i := range rapid.IntRange(1, 3).Draw(t, "variants") {
			v := drawObject(t, depth-1)
			v["properties"].(schema)["tag"] = schema{"const": fmt.Sprintf("t%d", i)}
			v["required"] = append(v["required"].([]any), "tag")
			variants = append(variants, v)
		}
		return schema{"oneOf": variants}
	case "object":
		return drawObject(t, depth-1)
	}
	return schema{"type": "string", "minLength": rapid.IntRange(0, 2).Draw(t, "minLength"), "maxLength": rapid.IntRange(3, 5).Draw(t, "maxLength")}
}

func drawObject(t *rapid.T, depth int) schema {
	properties, required := schema{}, []any{}
	for i := range rapid.IntRange(1, 3).Draw(t, "members") {
		name := fmt.Sprintf("p%d", i)
		properties[name] = drawSchema(t, depth)
		if rapid.Bool().Draw(t, "required") {
			required = append(required, name)
		}
	}
	s := schema{"type": "object", "properties": properties, "required": required}
	if rapid.Bool().Draw(t, "closed") {
		s["additionalProperties"] = false
	}
	return s
}

// clone copies s; numbers become float64 as in any JSON that was read.
func clone(s schema) schema {
	var out schema
	if err := json.Unmarshal(raw(s), &out); err != nil {
		panic(err)
	}
	return out
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// within lists s and the schemas in it in a fixed order.
func widerFormats(s schema) []schema {
	out := []schema{s}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if c, ok := s[keyword].(schema); ok {
			out = append(out, widerFormats(c)...)
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		list, _ := s[keyword].([]any)
		for _, c := range list {
			out = append(out, widerFormats(c.(schema))...)
		}
	}
	properties, _ := s["properties"].(schema)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, widerFormats(properties[name].(schema))...)
	}
	return out
}

// mutate applies m somewhere in s; false when there is no place for it.
func mutate(t *rapid.T, s schema, m mutation) bool {
	places := widerFormats(s)
	from := rapid.IntRange(0, len(places)-1).Draw(t, "place")
	for i := range places {
		if m.apply(t, places[(from+i)%len(places)]) {
			return true
		}
	}
	return false
}

// EVOL-3: whatever additive changes are made together, no subscription ends.
func TestAdditiveProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := clone(drawSchema(t, 3))
		new := clone(old)
		var names []string
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			m := rapid.SampledFrom(additive).Draw(t, "change")
			if mutate(t, new, m) {
				names = append(names, m.name)
				new = clone(new)
			}
		}
		for _, changes := range [][]string{lines(compareInput(string(raw(old)), string(raw(new)))), lines(comparePayload(string(raw(old)), string(raw(new))))} {
			if len(changes) > 0 {
				t.Fatalf("%v: %q\nold %s\nnew %s", names, changes, raw(old), raw(new))
			}
		}
	})
}

// EVOL-2: an incompatible change is found wherever it is made, also among additive ones.
func TestIncompatibleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := clone(drawSchema(t, 3))
		new := clone(old)
		m := rapid.SampledFrom(incompatible).Draw(t, "change")
		if !mutate(t, new, m) {
			return
		}
		new = clone(new)
		mutate(t, new, additive[4])
		if got := compareInput(string(raw(old)), string(raw(new))); len(got) == 0 {
			t.Fatalf("%s in inputSchema is not found\nold %s\nnew %s", m.name, raw(old), raw(new))
		}
		if got := comparePayload(string(raw(old)), string(raw(new))); (len(got) > 0) != m.payload {
			t.Fatalf("%s in payloadSchema: %v\nold %s\nnew %s", m.name, got, raw(old), raw(new))
		}
	})
}

// When nothing is found in inputSchema, arguments that were valid still are. Members that the old
// schema did not declare are not counted, since a new field may claim their name (EVOL-3).
func TestWhatIsCompatibleStaysValidProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := clone(drawSchema(t, 2))
		new := clone(drawSchema(t, 2))
		if rapid.IntRange(0, 3).Draw(t, "related") > 0 {
			new = clone(old)
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				mutate(t, new, rapid.SampledFrom(slices.Concat(additive, incompatible)).Draw(t, "change"))
				new = clone(new)
			}
		}
		if len(compareInput(string(raw(old)), string(raw(new)))) > 0 {
			return
		}
		before, err1 := validate.Compile(raw(old))
		after, err2 := validate.Compile(raw(new))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for range 5 {
			value := raw(drawValue(t, old))
			if before.Validate(value) != nil {
				continue // two variants of a oneOf at once
			}
			// Compare does not look for variants of a oneOf that came to overlap.
			if err := after.Validate(value); err != nil && !strings.Contains(err.Error(), "more than one") {
				t.Fatalf("%s was valid: %v\nold %s\nnew %s", value, err, raw(old), raw(new))
			}
		}
	})
}

// drawValue draws a value of s without undeclared members.
func drawValue(t *rapid.T, s schema) any {
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if list, ok := s[keyword].([]any); ok {
			return drawValue(t, rapid.SampledFrom(list).Draw(t, "variant").(schema))
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if values, ok := s["enum"].([]any); ok {
		return rapid.SampledFrom(values).Draw(t, "value")
	}
	limit := func(keyword string, otherwise int) int {
		if v, ok := s[keyword].(float64); ok {
			return int(v)
		}
		return otherwise
	}
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		kind = rapid.SampledFrom(list).Draw(t, "type").(string)
	}
	switch kind {
	case "string":
		n := rapid.IntRange(limit("minLength", 0), limit("maxLength", 9)).Draw(t, "length")
		return "xxxxxxxxx"[:min(n, 9)]
	case "integer":
		return rapid.IntRange(limit("minimum", -20), limit("maximum", 20)).Draw(t, "integer")
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "array":
		out := []any{}
		for range rapid.IntRange(0, limit("maxItems", 3)).Draw(t, "items") {
			out = append(out, drawValue(t, s["items"].(schema)))
		}
		return out
	case "object":
		out := schema{}
		required, _ := s["required"].([]any)
		properties, _ := s["properties"].(schema)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) || rapid.Bool().Draw(t, "present") {
				out[name] = drawValue(t, properties[name].(schema))
			}
		}
		if more, ok := s["additionalProperties"].(schema); ok && len(properties) == 0 {
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				out[rapid.StringMatching("[a-z]{3}").Draw(t, "key")] = drawValue(t, more)
			}
		}
		return out
	}
	return nil
}

// Writing a schema otherwise changes nothing: a part moved behind a reference or into an allOf.
func TestRefactoringProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := clone(drawSchema(t, 3))
		new := clone(old)
		places := widerFormats(new)
		part := places[rapid.IntRange(0, len(places)-1).Draw(t, "place")]
		moved := clone(part)
		clear(part)
		root := new
		if rapid.Bool().Draw(t, "reference") {
			part["$ref"] = "#/$defs/moved~1part"
			root["$defs"] = schema{"moved/part": moved}
		} else {
			part["allOf"] = []any{moved}
		}
		for _, pair := range [][2]schema{{old, new}, {new, old}} {
			a, b := string(raw(pair[0])), string(raw(pair[1]))
			if got := slices.Concat(compareInput(a, b), comparePayload(a, b)); len(got) > 0 {
				t.Fatalf("%v\nold %s\nnew %s", got, a, b)
			}
		}
	})
}

func lines[T fmt.Stringer](list []T) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}
