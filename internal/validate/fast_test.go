package validate

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shaped are schemas that have a shape.
var shaped = []string{
	`true`,
	`{}`,
	`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"enum":["x","a b"]},"b":{"const":"x"}},"additionalProperties":{"type":"string","minLength":1,"maxLength":2}}`,
	`{"properties":{"a":{"type":["integer","null"],"minimum":0,"maximum":5},"b":{"type":"number"}}}`,
	`{"type":"array","items":{"type":"string","pattern":"^x"},"minItems":1,"maxItems":2}`,
	`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"oneOf":[{"type":"array","items":{"type":"boolean"}},{"type":"integer"}]}}}`,
	`{"properties":{"a":{"$ref":"#/$defs/s"},"b":{"$ref":"#"}},"$defs":{"s":{"type":"string","format":"date-time"}},"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"string","format":"email"},"b":{"format":"unknown"}}}`,
	`{"properties":{"a":{"type":"boolean"},"b":{"type":"object","properties":{"a":{}},"required":["a"]}},"required":["b"],"x-match":"/a"}`,
	`{"type":["number","integer","string"],"maxLength":1}`,
	`{"properties":{"a":{"$ref":"#/$defs/a~1~0%20%25b"}},"$defs":{"a/~ %b":{"type":"string"}}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"object","properties":{"a":{"$ref":"#/definitions/n"},"b":{"minLength":1}}}},"$ref":"#/definitions/n"}`,
}

// shapeless are schemas that only the full validator decides.
var shapeless = []string{
	`false`, `{"allOf":[{}]}`, `{"not":{}}`, `{"patternProperties":{"a":{}}}`, `{"enum":[1]}`, `{"const":null}`, `{"enum":["a"],"const":"a"}`,
	`{"minimum":0.5}`, `{"minimum":9223372036854775808}`, `{"oneOf":[{"type":"string"},{"maxLength":3}]}`, `{"$ref":"#/$defs/s","type":"string","$defs":{"s":{}}}`,
	`{"required":["a"]}`, `{"uniqueItems":true}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"$ref":"#"}`,
	`{"$ref":"#/$defs/a/$defs/b","$defs":{"a":{"$id":"a","$defs":{"b":{"$ref":"#/$defs/c"},"c":{}}}}}`, `{"unevaluatedProperties":false}`, `{"$dynamicRef":"#"}`,
}

func fullOf(t interface{ Fatal(...any) }, schema string) *Schema {
	s, err := Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatal(schema, err)
	}
	return s
}

func TestWhichSchemasHaveAShape(t *testing.T) {
	for _, schema := range shaped {
		if fullOf(t, schema).fast == nil {
			t.Errorf("%s has no shape", schema)
		}
	}
	for _, schema := range shapeless {
		doc, err := Decode(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		if newShapes().shapeOf(base, doc) != nil {
			t.Errorf("%s has a shape", schema)
		}
	}
}

// agree fails when the shape accepts what the full validator refuses.
func agree(t interface{ Fatalf(string, ...any) }, s *Schema, raw []byte) (fast, full bool) {
	v, err := Decode(raw)
	full = err == nil && s.ValidateValue(v) == nil
	fast = s.fast.acceptsAll(raw)
	if fast && !full {
		t.Fatalf("%s is accepted by the shape alone", raw)
	}
	return fast, full
}

// The shape is only ever sure of what the full validator accepts, and knows all that is written
// without fractions and exponents.
func TestShapeAgreesWithTheValidator(t *testing.T) {
	var schemas []*Schema
	for _, text := range shaped {
		schemas = append(schemas, fullOf(t, text))
	}
	scalars := []any{nil, true, 0, 5, 6, -1, 1.5, "", "x", "é", "xx", "xxx", "a b", "x\n", "2026-11-20T08:00:00Z", "a@b.example"}
	var value func(t *rapid.T, depth int) any
	value = func(t *rapid.T, depth int) any {
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			list := []any{}
			for range rapid.IntRange(0, 3).Draw(t, "items") {
				list = append(list, value(t, depth-1))
			}
			return list
		case kind <= 2 && depth > 0:
			object := map[string]any{}
			for _, name := range []string{"a", "b", "c"} {
				if rapid.Bool().Draw(t, name) {
					object[name] = value(t, depth-1)
				}
			}
			return object
		}
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(schemas)-1).Draw(t, "schema")
		raw, err := json.Marshal(value(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		if fast, full := agree(t, schemas[i], raw); fast != full {
			t.Fatalf("%s against %s: shape %v, validator %v", raw, shaped[i], fast, full)
		}
	})
}

func FuzzShape(f *testing.F) {
	var schemas []*Schema
	for _, text := range shaped {
		schemas = append(schemas, fullOf(f, text))
	}
	for _, text := range []string{
		`{"a":"x","b":1}`, `{"\u0061":"x","a":"x"}`, `{"a":1e5,"b":1.0}`, `["x\u0041","xx"]`, `{"b":{"b":{"a":null}}}`, `{"a":1}{}`, "{\"a\":\"\xff\"}", `1e2000`, ` {} `, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for s := range slices.Values(schemas) {
			agree(t, s, raw)
		}
	})
}
