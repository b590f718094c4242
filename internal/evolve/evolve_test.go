package evolve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const anything = `{"type":"object"}`

func compareInput(old, new string) []evolve.Change {
	return evolve.Compare(
		wire.Descriptor{InputSchema: json.RawMessage(old), PayloadSchema: json.RawMessage(anything)},
		wire.Descriptor{InputSchema: json.RawMessage(new), PayloadSchema: json.RawMessage(anything)})
}

func comparePayload(old, new string) []evolve.Change {
	return evolve.Compare(
		wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(old)},
		wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(new)})
}

// found lists changes as "path RULE".
func found(changes []evolve.Change) string {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = strings.TrimSpace(c.Path + " " + c.Rule)
	}
	return strings.Join(lines, "; ")
}

type change struct{ name, old, new, input, payload string }

// object makes an object schema with one property x.
func object(x string) string { return `{"type":"object","properties":{"x":` + x + `}}` }

// EVOL-2: a field removed, renamed or retyped, an enum narrowed, or inputSchema tightened is
// incompatible; nothing stricter is. An empty want means that the change ends no subscription.
func TestIncompatibleChanges(t *testing.T) {
	for _, c := range []change{
		{"field removed", `{"type":"object","properties":{"a":{},"b":{}}}`, `{"type":"object","properties":{"b":{}}}`,
			"/properties/a FIELD_REMOVED", "/properties/a FIELD_REMOVED"},
		{"field renamed", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"b":{"type":"string"}}}`,
			"/properties/a FIELD_REMOVED", "/properties/a FIELD_REMOVED"},
		{"field forbidden", object(`{"type":"string"}`), object(`false`),
			"/properties/x FIELD_REMOVED", "/properties/x FIELD_REMOVED"},
		{"nested field removed", object(`{"type":"object","properties":{"y":{}}}`), object(`{"type":"object"}`),
			"/properties/x/properties/y FIELD_REMOVED", "/properties/x/properties/y FIELD_REMOVED"},
		{"field removed in items", object(`{"type":"array","items":{"properties":{"y":{}}}}`), object(`{"type":"array","items":{}}`),
			"/properties/x/items/properties/y FIELD_REMOVED", "/properties/x/items/properties/y FIELD_REMOVED"},
		{"map removed", `{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":false}`,
			"/additionalProperties FIELD_REMOVED; /additionalProperties INPUT_CLOSED", "/additionalProperties FIELD_REMOVED"},
		{"retyped", object(`{"type":"string"}`), object(`{"type":"integer"}`),
			"/properties/x INPUT_TYPE_NARROWED", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"retyped in items", object(`{"items":{"type":"string"}}`), object(`{"items":{"type":"boolean"}}`),
			"/properties/x/items INPUT_TYPE_NARROWED", "/properties/x/items PAYLOAD_TYPE_CHANGED"},
		{"retyped map", `{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{"type":"integer"}}`,
			"/additionalProperties INPUT_TYPE_NARROWED", "/additionalProperties PAYLOAD_TYPE_CHANGED"},
		{"number to integer", object(`{"type":"number"}`), object(`{"type":"integer"}`),
			"/properties/x INPUT_TYPE_NARROWED", ""},
		{"integer to number", object(`{"type":"integer"}`), object(`{"type":"number"}`),
			"", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"made nullable", object(`{"type":"string"}`), object(`{"type":["string","null"]}`),
			"", "/properties/x PAYLOAD_NULL_ADDED"},
		{"made nullable by anyOf", object(`{"type":"string"}`), object(`{"anyOf":[{"type":"string"},{"type":"null"}]}`),
			"", "/properties/x PAYLOAD_NULL_ADDED"},
		{"no longer nullable", object(`{"type":["string","null"]}`), object(`{"type":"string"}`),
			"/properties/x INPUT_TYPE_NARROWED", ""},
		{"type dropped", object(`{"type":"string"}`), object(`{}`), "", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"enum narrowed", object(`{"enum":["a","b"]}`), object(`{"enum":["a"]}`),
			"/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"enum to const", object(`{"type":"string","enum":["a","b"]}`), object(`{"type":"string","const":"b"}`),
			"/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"const changed", object(`{"const":1}`), object(`{"const":2}`),
			"/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"boolean narrowed", object(`{"type":"boolean"}`), object(`{"const":true}`),
			"/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"enum added", object(`{"type":"string"}`), object(`{"type":"string","enum":["a"]}`),
			"/properties/x INPUT_ENUM_ADDED", ""},
		{"const added", object(`{"type":"string"}`), object(`{"type":"string","const":"a"}`),
			"/properties/x INPUT_ENUM_ADDED", ""},
		{"new required field", `{"properties":{"a":{}}}`, `{"properties":{"a":{},"b":{}},"required":["b"]}`,
			"/properties/b INPUT_REQUIRED_ADDED", ""},
		{"field made required", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"required":["a"]}`,
			"/properties/a INPUT_REQUIRED_ADDED", ""},
		{"closed", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"additionalProperties":false}`,
			"/additionalProperties INPUT_CLOSED", ""},
		{"closed by unevaluatedProperties", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"unevaluatedProperties":false}`,
			"/additionalProperties INPUT_CLOSED", ""},
		{"additional members typed", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`,
			"/additionalProperties INPUT_TYPE_NARROWED", ""},
		{"minimum added", object(`{"type":"integer"}`), object(`{"type":"integer","minimum":0}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"minimum raised", object(`{"minimum":0}`), object(`{"minimum":1}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"minimum made exclusive", object(`{"minimum":0}`), object(`{"exclusiveMinimum":0}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"maximum lowered", object(`{"maximum":9.5}`), object(`{"maximum":9}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"minLength raised", object(`{"minLength":1}`), object(`{"minLength":2}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"maxLength added", object(`{"type":"string"}`), object(`{"type":"string","maxLength":9}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"minItems raised", object(`{"type":"array"}`), object(`{"type":"array","minItems":1}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"maxItems lowered", object(`{"maxItems":2}`), object(`{"maxItems":1}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"minProperties raised", `{}`, `{"minProperties":1}`, "INPUT_BOUND_TIGHTENED", ""},
		{"maxProperties lowered", `{"maxProperties":2}`, `{"maxProperties":1}`, "INPUT_BOUND_TIGHTENED", ""},
		{"uniqueItems added", object(`{"type":"array"}`), object(`{"type":"array","uniqueItems":true}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"multipleOf added", object(`{"type":"number"}`), object(`{"type":"number","multipleOf":0.5}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"multipleOf changed", object(`{"multipleOf":2}`), object(`{"multipleOf":3}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"pattern added", object(`{"type":"string"}`), object(`{"type":"string","pattern":"^a"}`), "/properties/x INPUT_PATTERN_CHANGED", ""},
		{"pattern changed", object(`{"pattern":"^a"}`), object(`{"pattern":"^b"}`), "/properties/x INPUT_PATTERN_CHANGED", ""},
		{"format added", object(`{"type":"string"}`), object(`{"type":"string","format":"email"}`), "/properties/x INPUT_FORMAT_CHANGED", ""},
		{"format changed", object(`{"format":"date"}`), object(`{"format":"date-time"}`),
			"/properties/x INPUT_FORMAT_CHANGED", "/properties/x PAYLOAD_FORMAT_CHANGED"},
		{"format removed", object(`{"type":"string","format":"date-time"}`), object(`{"type":"string"}`),
			"", "/properties/x PAYLOAD_FORMAT_CHANGED"},
		{"contains added", object(`{"type":"array"}`), object(`{"type":"array","contains":{"const":1}}`), "/properties/x INPUT_CONSTRAINT_ADDED", ""},
		{"propertyNames added", `{}`, `{"propertyNames":{"maxLength":3}}`, "/propertyNames INPUT_BOUND_TIGHTENED", ""},
		{"dependentRequired added", `{}`, `{"dependentRequired":{"a":["b"]}}`, "INPUT_CONSTRAINT_ADDED", ""},
		{"not added", `{}`, `{"not":{"required":["a"]}}`, "INPUT_CONSTRAINT_ADDED", ""},
		{"allOf added", object(`{"type":"string"}`), object(`{"type":"string","allOf":[{"maxLength":3}]}`), "/properties/x INPUT_BOUND_TIGHTENED", ""},
		{"tuple item retyped", object(`{"prefixItems":[{"type":"string"},{"type":"integer"}]}`), object(`{"prefixItems":[{"type":"string"},{"type":"string"}]}`),
			"/properties/x/prefixItems/1 INPUT_TYPE_NARROWED", "/properties/x/prefixItems/1 PAYLOAD_TYPE_CHANGED"},
		{"pattern property retyped", `{"patternProperties":{"^x":{"type":"string"}}}`, `{"patternProperties":{"^x":{"type":"integer"}}}`,
			"/patternProperties/^x INPUT_TYPE_NARROWED", "/patternProperties/^x PAYLOAD_TYPE_CHANGED"},
		{"behind a reference", `{"properties":{"x":{"$ref":"#/$defs/s"}},"$defs":{"s":{"enum":["a","b"]}}}`, `{"properties":{"x":{"$ref":"#/$defs/s"}},"$defs":{"s":{"enum":["b"]}}}`,
			"/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"behind an anchor", `{"properties":{"x":{"$ref":"#s"}},"$defs":{"t":{"$anchor":"s","type":"string"}}}`, `{"properties":{"x":{"$ref":"#s"}},"$defs":{"t":{"$anchor":"s","type":"boolean"}}}`,
			"/properties/x INPUT_TYPE_NARROWED", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"behind an $id", `{"$id":"https://e.x/a","properties":{"x":{"$ref":"b#/$defs/c"}},"$defs":{"b":{"$id":"b","$defs":{"c":{"type":"string"}}}}}`, `{"$id":"https://e.x/a","properties":{"x":{"$ref":"b#/$defs/c"}},"$defs":{"b":{"$id":"b","$defs":{"c":{"type":"null"}}}}}`,
			"/properties/x INPUT_TYPE_NARROWED", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"in a recursive schema", `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"string"},"next":{"$ref":"#/$defs/n"}}}}}`, `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}}}}}`,
			"/properties/next/properties/v INPUT_TYPE_NARROWED; /properties/v INPUT_TYPE_NARROWED", "/properties/next/properties/v PAYLOAD_TYPE_CHANGED; /properties/v PAYLOAD_TYPE_CHANGED"},
		{"behind a condition", `{"if":{"$ref":"#/$defs/c"},"then":{"required":["a"]},"$defs":{"c":{"required":["b"]}}}`, `{"if":{"$ref":"#/$defs/c"},"then":{"required":["a"]},"$defs":{"c":{"required":["d"]}}}`,
			"SCHEMA_INCOMPARABLE", ""},
		{"variant removed", object(`{"oneOf":[{"type":"string"},{"type":"object","properties":{"y":{}}}]}`), object(`{"oneOf":[{"type":"string"}]}`),
			"/properties/x INPUT_TYPE_NARROWED", "/properties/x TYPE_REMOVED"},
		{"variant field removed", `{"oneOf":[{"properties":{"k":{"const":"a"},"v":{}}},{"properties":{"k":{"const":"b"}}}]}`, `{"oneOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"}}}]}`,
			"/properties/v FIELD_REMOVED", "/properties/v FIELD_REMOVED"},
		{"variant with another tag", `{"oneOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"}}}]}`, `{"oneOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"c"}}}]}`,
			"/properties/k ENUM_NARROWED", "/properties/k ENUM_NARROWED"},
		{"made unsatisfiable", object(`{"type":"string"}`), object(`{"type":"string","allOf":[{"type":"integer"}]}`),
			"/properties/x VALUE_FORBIDDEN", "/properties/x VALUE_FORBIDDEN"},
		{"foreign reference changed", object(`{"$ref":"https://e.x/a"}`), object(`{"$ref":"https://e.x/b"}`),
			"/properties/x SCHEMA_INCOMPARABLE", "/properties/x SCHEMA_INCOMPARABLE"},
		{"not a schema", `{}`, `5`, "SCHEMA_INCOMPARABLE", "SCHEMA_INCOMPARABLE"},
		{"not JSON", `{`, `{}`, "SCHEMA_INCOMPARABLE", "SCHEMA_INCOMPARABLE"},
		{"draft-07 tuple", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}]}`,
			"/prefixItems/0 INPUT_TYPE_NARROWED", "/prefixItems/0 PAYLOAD_TYPE_CHANGED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := found(compareInput(c.old, c.new)); got != c.input {
				t.Errorf("input: got %q, want %q", got, c.input)
			}
			if got := found(comparePayload(c.old, c.new)); got != c.payload {
				t.Errorf("payload: got %q, want %q", got, c.payload)
			}
		})
	}
}

// EVOL-3: additive changes end no subscription: new optional fields and widened enums in either
// schema, also where additional members are not allowed, and relaxed bounds.
func TestAdditiveChanges(t *testing.T) {
	for _, c := range []struct{ name, old, new string }{
		{"nothing", object(`{"type":"string"}`), object(`{"type":"string"}`)},
		{"new optional field", `{"properties":{"a":{}}}`, `{"properties":{"a":{},"b":{"type":"string"}}}`},
		{"new optional field in a closed object", `{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{},"b":{"type":"string","minLength":3}},"additionalProperties":false}`},
		{"new optional nested field", object(`{"properties":{"a":{}},"additionalProperties":false}`), object(`{"properties":{"a":{},"b":{"enum":[1]}},"additionalProperties":false}`)},
		{"new optional field in a map", `{"additionalProperties":{"type":"string"}}`, `{"properties":{"b":{"type":"integer"}},"additionalProperties":{"type":"string"}}`},
		{"new field in items", `{"properties":{"x":{"items":{"properties":{"a":{}}}}}}`, `{"properties":{"x":{"items":{"properties":{"a":{},"b":{}}}}}}`},
		{"enum widened", object(`{"enum":["a"]}`), object(`{"enum":["b","a"]}`)},
		{"const to enum", object(`{"const":"a"}`), object(`{"enum":["a","b"]}`)},
		{"enum to constants", object(`{"enum":["a","b"]}`), object(`{"oneOf":[{"const":"a"},{"const":"b"},{"const":"c"}]}`)},
		{"constants to enum", object(`{"oneOf":[{"const":"a"},{"const":"b"}]}`), object(`{"enum":["a","b"]}`)},
		{"enum dropped", object(`{"type":"string","enum":["a"]}`), object(`{"type":"string"}`)},
		{"bounds relaxed", object(`{"type":"integer","minimum":1,"maximum":9,"multipleOf":4}`), object(`{"type":"integer","minimum":0,"maximum":10,"multipleOf":2}`)},
		{"bounds dropped", object(`{"type":"string","minLength":1,"maxLength":9}`), object(`{"type":"string"}`)},
		{"exclusive made inclusive", object(`{"exclusiveMaximum":9}`), object(`{"maximum":9}`)},
		{"same bound over integers", object(`{"type":"integer","minimum":1}`), object(`{"type":"integer","exclusiveMinimum":0}`)},
		{"bound in another notation", object(`{"minimum":1.0}`), object(`{"minimum":1e0}`)},
		{"bound without effect", object(`{"type":"string"}`), object(`{"type":"string","minLength":0,"minimum":5}`)},
		{"multipleOf 1 of an integer", object(`{"type":"integer"}`), object(`{"type":"integer","multipleOf":1}`)},
		{"item bounds relaxed", object(`{"type":"array","minItems":2,"uniqueItems":true}`), object(`{"type":"array","minItems":1,"uniqueItems":false}`)},
		{"titles and examples", object(`{"type":"string"}`), object(`{"type":"string","title":"t","description":"d","examples":["x"],"default":"x","deprecated":true,"x-more":{"type":"integer"}}`)},
		{"moved behind a reference", object(`{"type":"string","maxLength":3}`), `{"type":"object","properties":{"x":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string","maxLength":3}}}`},
		{"definition renamed", `{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, `{"properties":{"x":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"string"}}}`},
		{"unused definition removed", `{"$defs":{"a":{"type":"string"}}}`, `{}`},
		{"merged from allOf", object(`{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"required":["a"]}]}`), object(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)},
		{"split into allOf", object(`{"type":"string","minLength":1,"maxLength":5}`), object(`{"allOf":[{"type":"string","minLength":1},{"maxLength":5}]}`)},
		{"nullable written otherwise", object(`{"type":["string","null"]}`), object(`{"oneOf":[{"type":"null"},{"type":"string"}]}`)},
		{"nullable written otherwise, back", object(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), object(`{"type":["null","string"]}`)},
		{"number as union", object(`{"type":"number"}`), object(`{"anyOf":[{"type":"string"},{"type":"number"}],"type":"number"}`)},
		{"variant added", `{"type":"object","oneOf":[{"properties":{"k":{"const":"a"}}}]}`, `{"type":"object","oneOf":[{"properties":{"k":{"const":"b"}}},{"properties":{"k":{"const":"a"}}}]}`},
		{"variants in another order", `{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"}}}]}`, `{"oneOf":[{"properties":{"k":{"const":"b"}}},{"properties":{"k":{"const":"a"}},"required":["k"]}]}`},
		{"opened", `{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{}}}`},
		{"opened to a map", `{"additionalProperties":false}`, `{"additionalProperties":{"type":"string"}}`},
		{"required dropped", `{"properties":{"a":{}},"required":["a"]}`, `{"properties":{"a":{}}}`},
		{"recursive", `{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}}}`, `{"properties":{"next":{"$ref":"#"},"more":{}}}`},
		{"self reference", `{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`},
		{"condition dropped", `{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{}`},
		{"forbidden field declared", `{"properties":{"a":false}}`, `{"properties":{"a":{"type":"string"}}}`},
		{"true and {}", object(`true`), object(`{}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := compareInput(c.old, c.new); len(got) != 0 {
				t.Errorf("input: %v", got)
			}
			if got := comparePayload(c.old, c.new); len(got) != 0 {
				t.Errorf("payload: %v", got)
			}
		})
	}
}

// Only the schemas count.
func TestOtherPartsOfADescriptorAreIgnored(t *testing.T) {
	old := wire.Descriptor{Name: "a", Description: "x", Delivery: []string{"poll"}, InputSchema: json.RawMessage(`{}`), PayloadSchema: json.RawMessage(`{}`)}
	if got := evolve.Compare(old, wire.Descriptor{Name: "b", Delivery: []string{"push"}, InputSchema: json.RawMessage(`{ }`), PayloadSchema: json.RawMessage(`{}`), Meta: map[string]any{"k": 1}}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A change of either schema is told with its feature, as EVOL-2's error data needs it.
func TestFeatures(t *testing.T) {
	old := wire.Descriptor{InputSchema: json.RawMessage(object(`{"type":"string"}`)), PayloadSchema: json.RawMessage(object(`{"type":"string"}`))}
	new := wire.Descriptor{InputSchema: json.RawMessage(object(`{"type":"null"}`)), PayloadSchema: json.RawMessage(object(`{"type":"null"}`))}
	got := evolve.Compare(old, new)
	if len(got) != 2 || got[0].Feature != "inputSchema" || got[1].Feature != "payloadSchema" {
		t.Fatalf("got %v", got)
	}
	if want := "payloadSchema/properties/x: was string and may now be null"; got[1].String() != want {
		t.Errorf("got %q, want %q", got[1], want)
	}
}

func TestEndsOnLargeUnions(t *testing.T) {
	variant := func(deep string) string {
		return `{"anyOf":[` + strings.TrimSuffix(strings.Repeat(deep+",", 20), ",") + `]}`
	}
	for _, pair := range [][2]string{
		{`{"allOf":[` + variant(`{"title":"a"}`) + `,` + variant(`{"title":"b"}`) + `]}`, `{}`},
		{variant(`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`), variant(`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"required":["a"]}`)},
	} {
		if got := compareInput(pair[0], pair[1]); len(got) == 0 {
			t.Error("what cannot be compared is passed over")
		}
	}
}

func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range evolve.Rules() {
		if seen[r.ID] || r.ID == "" || r.Purpose == "" || r.Category == "" || len(r.Features) == 0 {
			t.Errorf("rule %+v", r)
		}
		seen[r.ID] = true
	}
}
