package evolve_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func differ(old, new string, payload bool) []evolve.Change {
	a := wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(anything)}
	b := a
	if payload {
		a.PayloadSchema, b.PayloadSchema = json.RawMessage(old), json.RawMessage(new)
	} else {
		a.InputSchema, b.InputSchema = json.RawMessage(old), json.RawMessage(new)
	}
	return evolve.Differences(a, b)
}

const byMember = `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"},"v":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`

const tagged = `{"type":"object","oneOf":[{"properties":{"k":{"const":"a"},"v":{"type":"string"}},"required":["k"]},{"properties":{"k":{"const":"b"}},"required":["k"]}]}`

// Beyond EVOL-2 the breaking command also knows what ends no subscription. Here want is "path RULE".
func TestDifferences(t *testing.T) {
	for _, c := range []change{
		{"required dropped", `{"type":"object","properties":{"a":{}},"required":["a"]}`, `{"type":"object","properties":{"a":{}}}`,
			"", "/properties/a PAYLOAD_REQUIRED_REMOVED"},
		{"required field removed", `{"type":"object","properties":{"a":{}},"required":["a"]}`, `{"type":"object"}`,
			"/properties/a FIELD_REMOVED", "/properties/a FIELD_REMOVED"},
		{"enum widened", object(`{"enum":["a"]}`), object(`{"enum":["a","b"]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"enum dropped", object(`{"type":"string","enum":["a"]}`), object(`{"type":"string"}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"constants widened", object(`{"oneOf":[{"const":"a"},{"const":"b"}]}`), object(`{"oneOf":[{"const":"a"},{"const":"b"},{"const":"c"}]}`),
			"", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"integer beside fractions", object(`{"enum":[1.5,2.5]}`), object(`{"enum":[1.5,2.5,3]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"integer among fractions lost", object(`{"enum":[1.5,2.5,3]}`), object(`{"enum":[1.5,2.5]}`), "/properties/x ENUM_NARROWED", "/properties/x ENUM_NARROWED"},
		{"fraction beside integers of type number", object(`{"type":["number","null"],"enum":[1,null]}`), object(`{"type":["number","null"],"enum":[1,1.5,null]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"fraction beside integers", object(`{"enum":[1]}`), object(`{"enum":[1,1.5]}`), "", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"fraction beside an integer that no float64 holds", object(`{"type":"number","enum":[9007199254740993]}`), object(`{"type":"number","enum":[9007199254740993,1.5]}`),
			"", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"an integer that no float64 holds outgrown", object(`{"type":"number","enum":[9007199254740993]}`), object(`{"type":"number","enum":[9007199254740993,18446744073709551615]}`),
			"", "/properties/x PAYLOAD_INTEGER_OUTGROWN"},
		{"integers of type number outgrown", object(`{"type":"number","enum":[1]}`), object(`{"type":"number","enum":[1,18446744073709551615]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"format wider", object(`{"type":"string","format":"uri"}`), object(`{"type":"string","format":"uri-reference"}`), "", "/properties/x PAYLOAD_FORMAT_CHANGED"},
		{"format narrower", object(`{"type":"string","format":"idn-email"}`), object(`{"type":"string","format":"email"}`), "/properties/x INPUT_FORMAT_CHANGED", ""},
		{"bound relaxed", object(`{"type":"string","maxLength":3}`), object(`{"type":"string","maxLength":4}`), "", "/properties/x PAYLOAD_BOUND_RELAXED"},
		{"bound dropped", object(`{"type":"integer","minimum":3,"multipleOf":2}`), object(`{"type":"integer"}`),
			"", "/properties/x PAYLOAD_BOUND_RELAXED; /properties/x PAYLOAD_BOUND_RELAXED"},
		{"bound that listed values keep", object(`{"type":"string","enum":["a","bb"]}`), object(`{"type":"string","minLength":1,"maxLength":2}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"bound that a listed value breaks", object(`{"type":"string","enum":["a","bb"]}`), object(`{"type":"string","maxLength":1}`),
			"/properties/x INPUT_BOUND_TIGHTENED", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"pattern dropped", object(`{"type":"string","pattern":"a"}`), object(`{"type":"string"}`), "", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"pattern changed", object(`{"type":"string","pattern":"a"}`), object(`{"type":"string","pattern":"b"}`),
			"/properties/x INPUT_PATTERN_CHANGED", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"not dropped", object(`{"type":"string","not":{"const":"a"}}`), object(`{"type":"string"}`), "", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"not changed", object(`{"type":"string","not":{"const":"a"}}`), object(`{"type":"string","not":{"const":"b"}}`),
			"/properties/x SCHEMA_INCOMPARABLE", "/properties/x SCHEMA_INCOMPARABLE"},
		{"not explained", object(`{"type":"string","not":{"const":"a"}}`), object(`{"type":"string","not":{"const":"a","description":"Not a."}}`), "", ""},
		{"property called title below not", object(`{"not":{"properties":{"title":{"type":"string"}}}}`), object(`{"not":{"properties":{"title":{"type":"null"}}}}`),
			"/properties/x SCHEMA_INCOMPARABLE", "/properties/x SCHEMA_INCOMPARABLE"},
		{"dependentRequired of a field called title", `{"type":"object","dependentRequired":{"title":["a"]}}`, `{"type":"object","dependentRequired":{"title":["b"]}}`,
			"SCHEMA_INCOMPARABLE", "SCHEMA_INCOMPARABLE"},
		{"new argument in an open schema", `{"type":"object"}`, object(`{"type":"string"}`), "/properties/x INPUT_NAME_CLAIMED", ""},
		{"new argument in a closed schema", `{"type":"object","additionalProperties":false}`, `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`,
			"", "/properties/x PAYLOAD_FIELD_ADDED"},
		{"new field in a map", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":{"type":"string"}}`,
			"/properties/x INPUT_TYPE_NARROWED", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"fitting new field in a map", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":{"type":"string"}}`, "", ""},
		{"opened", `{"type":"object","additionalProperties":false}`, `{"type":"object"}`, "", "/additionalProperties PAYLOAD_OPENED"},
		{"map opened", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object"}`, "", "/additionalProperties PAYLOAD_TYPE_CHANGED"},
		{"items allowed", object(`{"type":"array","items":false}`), object(`{"type":"array","items":{"type":"string"}}`), "", "/properties/x/items PAYLOAD_OPENED"},
		{"tagged variant added", tagged, strings.TrimSuffix(tagged, "]}") + `,{"properties":{"k":{"const":"c"},"v":{"type":"integer"}},"required":["k"]}]}`,
			"", "PAYLOAD_VARIANT_ADDED"},
		{"type added to several", object(`{"type":["string","integer"]}`), object(`{"type":["string","integer","object"]}`), "", "/properties/x PAYLOAD_VARIANT_ADDED"},
		{"variant of another type added", object(`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`), object(`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]},{"type":"array"}]}`),
			"", "/properties/x PAYLOAD_VARIANT_ADDED"},
		{"type added to one", object(`{"type":"string"}`), object(`{"type":["string","integer"]}`), "", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"null added to several", object(`{"type":["string","integer"]}`), object(`{"type":["string","integer","null","object"]}`),
			"", "/properties/x PAYLOAD_TYPE_CHANGED; /properties/x PAYLOAD_VARIANT_ADDED"},
		{"fraction added to several", object(`{"type":["string","integer"]}`), object(`{"type":["string","number"]}`), "", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"nullable is one type", object(`{"type":["string","null"]}`), object(`{"type":["string","null","integer"]}`), "", "/properties/x PAYLOAD_TYPE_CHANGED"},
		{"variant with another member added", byMember, strings.TrimSuffix(byMember, "]}") + `,{"properties":{"c":{"type":"string"},"v":{"type":"integer"}},"required":["c"]}]}`,
			"", "PAYLOAD_VARIANT_ADDED"},
		{"variant with a known member added", byMember, strings.TrimSuffix(byMember, "]}") + `,{"properties":{"a":{"type":"integer"},"c":{"type":"string"}},"required":["c"]}]}`,
			"", "/properties/b PAYLOAD_TYPE_CHANGED"},
		{"struct to union", `{"type":"object","properties":{"v":{"type":"string"}}}`, `{"type":"object","oneOf":[{"properties":{"v":{"type":"string"}}},{"properties":{"v":{"type":"integer"}}}]}`,
			"SCHEMA_INCOMPARABLE", "/properties/v PAYLOAD_TYPE_CHANGED"},
		{"disjoint union instead of types", object(`{"type":["object","string"],"required":["a"]}`), object(`{"oneOf":[{"type":"string"},{"type":"object","required":["a"]}]}`), "", ""},
		{"a part of a union tightened", object(`{"type":["object","string"],"required":["a"]}`), object(`{"oneOf":[{"type":"string"},{"type":"object","required":["a","b"]}]}`),
			"/properties/x/properties/b INPUT_REQUIRED_ADDED", ""},
		{"overlapping oneOf changed", object(`{"oneOf":[{"type":"string"},{"maxLength":3}]}`), object(`{"oneOf":[{"type":"string"},{"maxLength":4}]}`),
			"/properties/x SCHEMA_INCOMPARABLE", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"overlapping oneOf explained", object(`{"oneOf":[{"type":"string"},{"maxLength":3}]}`), object(`{"oneOf":[{"type":"string","title":"t"},{"maxLength":3}]}`), "", ""},
		{"names narrowed", `{"type":"object","propertyNames":{"maxLength":4}}`, `{"type":"object","propertyNames":{"maxLength":3}}`, "/propertyNames INPUT_BOUND_TIGHTENED", ""},
		{"names widened", `{"type":"object","propertyNames":{"maxLength":3}}`, `{"type":"object","propertyNames":{"maxLength":4}}`, "", "/propertyNames PAYLOAD_BOUND_RELAXED"},
		{"second pattern of names", `{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":{"maxLength":3}}`,
			`{"type":"object","patternProperties":{"^a":{"type":"string"},"b$":{"maxLength":3}},"additionalProperties":{"maxLength":3}}`,
			"/patternProperties/b$ INPUT_BOUND_TIGHTENED", ""},
		{"name that only a backtracking pattern matches", `{"type":"object","patternProperties":{"^(?=ab)":{"type":"string"}}}`,
			`{"type":"object","patternProperties":{"^(?=ab)":{"type":"string"}},"properties":{"abc":{"type":"integer"}}}`,
			"/properties/abc VALUE_FORBIDDEN", ""},
		{"integer beyond int64", object(`{"type":"integer","maximum":100}`), object(`{"type":"integer","maximum":18446744073709551615}`),
			"", "/properties/x PAYLOAD_INTEGER_OUTGROWN"},
		{"integer below int64", object(`{"type":["integer","null"],"minimum":0}`), object(`{"type":["integer","null"],"exclusiveMinimum":-9223372036854775810}`),
			"", "/properties/x PAYLOAD_INTEGER_OUTGROWN"},
		{"integer up to int64", object(`{"type":"integer","maximum":100}`), object(`{"type":"integer","exclusiveMaximum":9223372036854775808}`), "", "/properties/x PAYLOAD_BOUND_RELAXED"},
		{"integer without a bound", object(`{"type":"integer","maximum":100}`), object(`{"type":"integer"}`), "", "/properties/x PAYLOAD_BOUND_RELAXED"},
		{"enum beyond int64", object(`{"enum":[1,2]}`), object(`{"enum":[1,2,18446744073709551615]}`), "", "/properties/x PAYLOAD_INTEGER_OUTGROWN"},
		{"enum beyond int64 before", object(`{"enum":[1,18446744073709551615]}`), object(`{"enum":[1,2,18446744073709551615]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"enum of mixed types beyond int64", object(`{"enum":[1,"a"]}`), object(`{"enum":[1,"a",18446744073709551615]}`), "", "/properties/x PAYLOAD_ENUM_WIDENED"},
		{"element beyond int64", object(`{"type":"array","items":{"type":"integer","maximum":9}}`), object(`{"type":"array","items":{"anyOf":[{"type":"integer","maximum":9},{"type":"integer","maximum":9223372036854775808}]}}`),
			"", "/properties/x/items PAYLOAD_INTEGER_OUTGROWN"},
		{"unknown format added", object(`{"type":"string"}`), object(`{"type":"string","format":"datetime"}`), "", ""},
		{"unknown format dropped", object(`{"type":"string","format":"money"}`), object(`{"type":"string"}`), "", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"unknown format made known", object(`{"type":"string","format":"datetime"}`), object(`{"type":"string","format":"date-time"}`),
			"/properties/x INPUT_FORMAT_CHANGED", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"unknown encoding added", object(`{"type":"string"}`), object(`{"type":"string","contentEncoding":"quoted-printable"}`), "", ""},
		{"encoding added", object(`{"type":"string"}`), object(`{"type":"string","contentEncoding":"base64"}`), "/properties/x INPUT_FORMAT_CHANGED", ""},
		{"field in a closed map by pattern", `{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":false}`,
			`{"type":"object","patternProperties":{"^a":{"type":"string"}},"properties":{"b":{"type":"integer"}},"additionalProperties":false}`, "", "/properties/b PAYLOAD_TYPE_CHANGED"},
		{"fitting field in a closed map by pattern", `{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":false}`,
			`{"type":"object","patternProperties":{"^a":{"type":"string"}},"properties":{"b":{"type":"string"}},"additionalProperties":false}`, "", "/properties/b PAYLOAD_FIELD_ADDED"},
		{"closed map by pattern opened", `{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":false}`,
			`{"type":"object","patternProperties":{"^a":{"type":"string"}}}`, "", "/additionalProperties PAYLOAD_OPENED; /additionalProperties PAYLOAD_TYPE_CHANGED"},
		{"patterns give way to unevaluated members", `{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":false}`,
			`{"type":"object","properties":{"b":{"type":"string"}},"unevaluatedProperties":{"type":"boolean"}}`,
			"/patternProperties/^a INPUT_TYPE_NARROWED", "/additionalProperties PAYLOAD_OPENED; /additionalProperties PAYLOAD_TYPE_CHANGED; /patternProperties/^a PAYLOAD_TYPE_CHANGED; /properties/b PAYLOAD_FIELD_ADDED"},
		{"descriptions", object(`{"type":"string"}`), object(`{"type":"string","description":"d"}`), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for payload, want := range map[bool]string{false: c.input, true: c.payload} {
				got := strings.Split(found(differ(c.old, c.new, payload)), "; ")
				slices.Sort(got)
				if s := strings.Join(got, "; "); s != want {
					t.Errorf("payload %v: got %q, want %q", payload, s, want)
				}
			}
		})
	}
}

// Every live finding is a WIRE difference, and Compare leaves out whatever is not live.
func TestCompareIsPartOfDifferences(t *testing.T) {
	live := map[string]bool{}
	for _, r := range evolve.Rules() {
		live[r.ID] = r.Live
		if r.Live && r.Category != evolve.Wire {
			t.Errorf("%s ends subscriptions and is %s", r.ID, r.Category)
		}
	}
	for _, c := range comparePayload(object(`{"type":"string","enum":["a"]}`), `{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false}`) {
		if !live[c.Rule] {
			t.Errorf("%v", c)
		}
	}
}

// union is a payload whose variants are told apart by a discriminator alone.
func union(refs, mapping string) string {
	return `{"type":"object","properties":{"x":{"oneOf":[` + refs + `],"discriminator":{"propertyName":"k"` + mapping + `}}},"$defs":{` +
		`"M":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}},` +
		`"N":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"n":{"type":"integer"}}},` +
		`"O":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"n":{"type":"boolean"}}},` +
		`"C":{"type":"object","required":["k"],"properties":{"k":{"const":"m"}}}}}`
}

const (
	refM, refN, refO = `{"$ref":"#/$defs/M"}`, `{"$ref":"#/$defs/N"}`, `{"$ref":"#/$defs/O"}`
	mapMN            = `,"mapping":{"m":"#/$defs/M","n":"#/$defs/N"}`
)

// Readers go by the tag of a discriminator, whatever variant a value would fit.
func TestDiscriminators(t *testing.T) {
	mn := union(refM+","+refN, mapMN)
	const changed = "/properties/x DISCRIMINATOR_CHANGED"
	for _, c := range []change{
		{"order", mn, union(refN+","+refM, `,"mapping":{"n":"N","m":"M"}`), "/properties/x SCHEMA_INCOMPARABLE", "/properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"tag renamed", mn, union(refM+","+refN, `,"mapping":{"mm":"#/$defs/M","n":"#/$defs/N"}`), changed, changed},
		{"tag from the name of the schema", mn, union(refM+","+refN, ""), changed + "; " + changed, changed + "; " + changed},
		{"tag from an escaped name", strings.Replace(union(`{"$ref":"#/$defs/a~1b"}`, ""), `"M":`, `"a/b":`, 1),
			strings.Replace(union(`{"$ref":"#/$defs/a~1b"}`, `,"mapping":{"a/b":"#/$defs/a~1b"}`), `"M":`, `"a/b":`, 1), "", ""},
		{"second tag", mn, union(refM+","+refN, `,"mapping":{"m":"#/$defs/M","mm":"#/$defs/M","n":"#/$defs/N"}`), "", ""},
		{"property renamed", mn, strings.Replace(mn, `"propertyName":"k"`, `"propertyName":"n"`, 1), changed, changed},
		{"discriminator dropped", mn, strings.Replace(mn, `,"discriminator":{"propertyName":"k",`, `,"x-discriminator":{"propertyName":"k",`, 1), changed, changed},
		{"discriminator added", strings.Replace(mn, `"discriminator"`, `"x-discriminator"`, 1), mn, "", ""},
		{"variant removed", mn, union(refM, mapMN), changed, changed + "; /properties/x PAYLOAD_CONSTRAINT_RELAXED"},
		{"variant added", mn, union(refM+","+refN+","+refO, `,"mapping":{"m":"#/$defs/M","n":"#/$defs/N","o":"#/$defs/O"}`), "/properties/x SCHEMA_INCOMPARABLE", "/properties/x PAYLOAD_CONSTRAINT_RELAXED; /properties/x PAYLOAD_VARIANT_ADDED"},
		{"variants swapped", union(refN+","+refO, `,"mapping":{"n":"#/$defs/N","o":"#/$defs/O"}`), union(refN+","+refO, `,"mapping":{"o":"#/$defs/N","n":"#/$defs/O"}`),
			"/properties/x/properties/n INPUT_TYPE_NARROWED; /properties/x/properties/n INPUT_TYPE_NARROWED",
			"/properties/x/properties/n PAYLOAD_TYPE_CHANGED; /properties/x/properties/n PAYLOAD_TYPE_CHANGED"},
		{"constants instead of a mapping", union(refM, mapMN), strings.Replace(union(`{"$ref":"#/$defs/C"}`, ""), `,"discriminator":{"propertyName":"k"}`, "", 1),
			"/properties/x/properties/k INPUT_ENUM_ADDED", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for payload, want := range map[bool]string{false: c.input, true: c.payload} {
				got := strings.Split(found(differ(c.old, c.new, payload)), "; ")
				slices.Sort(got)
				if s := strings.Join(got, "; "); s != want {
					t.Errorf("payload %v: got %q, want %q", payload, s, want)
				}
			}
			if changes := evolve.Compare(wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(mn)},
				wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(strings.Replace(mn, `"m":"#`, `"mm":"#`, 1))}); len(changes) > 0 {
				t.Errorf("a discriminator ends live subscriptions: %v", changes)
			}
		})
	}
}
