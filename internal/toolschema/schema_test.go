package toolschema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

func TestInputSchema(t *testing.T) {
	for _, c := range []struct{ name, in, good, bad string }{
		{"plain", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`,
			`{"a":"x","cursor":null,"maxEvents":1,"waitSeconds":55,"quietSeconds":5,"since":"10m"}`, `{"a":"x","other":1}`},
		{"no properties", `{}`, `{"cursor":"c"}`, `{"maxEvents":0}`},
		{"a wait that is too long", `{}`, `{"waitSeconds":0}`, `{"waitSeconds":56}`},
		{"a burst that is too long", `{}`, `{"quietSeconds":55}`, `{"quietSeconds":56}`}, // COAL-3
		{"references", `{"properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],"$defs":{"A":{"type":"array","items":{"$ref":"#/$defs/B"}},"B":{"type":"string"}}}`,
			`{"a":["x"]}`, `{"a":[1]}`},
		{"a past that is no text", `{}`, `{"since":null}`, `{"since":10}`},
		{"a $ref at the top", `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"object","properties":{"self":{"$ref":"#/$defs/a~1b"}},"additionalProperties":false}}}`,
			`{"self":{"self":{}},"cursor":"c"}`, `{"self":{"cursor":"c"}}`},
	} {
		got, err := InputSchema(json.RawMessage(c.in), ArgumentNames{}.WithDefaults())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check(t, c.name, got, c.good, c.bad)
		if recursive := strings.Contains(c.in, "self"); strings.Contains(string(got), "$ref") != recursive || strings.Contains(string(got), "$defs") != recursive {
			t.Errorf("%s: %s", c.name, got) // HOST-4: some clients refuse references
		}
	}
}

// HOST-4: references remain in an inputSchema that would have more than 64 KiB without them.
func TestInputSchemaIsBounded(t *testing.T) {
	for size, kept := range map[int]bool{20 << 10: false, 40 << 10: true} {
		text := `{"properties":{"a":{"$ref":"#/$defs/A"},"b":{"$ref":"#/$defs/A"}},"$defs":{"A":{"description":"` + strings.Repeat("x", size) + `"}}}`
		got, err := InputSchema(json.RawMessage(text), ArgumentNames{}.WithDefaults())
		if err != nil || strings.Contains(string(got), `"$ref"`) != kept || strings.Contains(string(got), `"$defs"`) != kept {
			t.Errorf("%d: %v in %d bytes", size, err, len(got))
		}
	}
}

func TestInputSchemaRefuses(t *testing.T) {
	for in, want := range map[string]SchemaError{
		`{"type":"object","properties":{"cursor":{}}}`:                           {Argument: "cursor"},
		`{"type":"object","properties":{"maxEvents":{}}}`:                        {Argument: "maxEvents"},
		`{"type":"object","properties":{"waitSeconds":{}}}`:                      {Argument: "waitSeconds"},
		`{"type":"object","properties":{"quietSeconds":{}}}`:                     {Argument: "quietSeconds"},
		`{"type":"object","properties":{"since":{}}}`:                            {Argument: "since"},
		`{"type":"object","oneOf":[{}]}`:                                         {Keyword: "oneOf"},
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","maxProperties":1}}}`: {Keyword: "maxProperties"},
	} {
		_, err := InputSchema(json.RawMessage(in), ArgumentNames{}.WithDefaults())
		var got *SchemaError
		if !errors.As(err, &got) || *got != want || got.Error() == "" {
			t.Errorf("%s: %v, want %+v", in, err, want)
		}
	}
}

func TestOutputSchema(t *testing.T) {
	for _, c := range []struct{ name, payload, good, bad string }{
		{"plain", `{"type":"object","properties":{"id":{"type":"string"}}}`, `{"id":"1"}`, `{"id":1}`},
		{"local references", `{"type":"object","properties":{"who":{"$ref":"#/$defs/Who"},"next":{"$ref":"#"},"$ref":{"const":"#/x"}},"$defs":{"Who":{"type":"string"}}}`,
			`{"who":"x","next":{"who":"y"},"$ref":"#/x"}`, `{"next":{"who":1}}`},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"who":{"$ref":"#/definitions/who"}},"definitions":{"who":{"type":"string"}}}`,
			`{"who":"x"}`, `{"who":1}`},
		{"an own resource", `{"$id":"https://example.com/p","type":"object","properties":{"who":{"$ref":"#/$defs/Who"}},"$defs":{"Who":{"type":"string"}}}`,
			`{"who":"x"}`, `{"who":1}`},
		{"lists of schemas", `{"type":"object","anyOf":[{"$ref":"#/$defs/A"},{"required":["b"]}],"$defs":{"A":{"required":["a"]}}}`, `{"a":1}`, `{"c":1}`},
	} {
		page := func(data string) string {
			return `{"notice":"n","events":[{"eventId":"1","name":"n","timestamp":"2026-01-01T00:00:00Z","data":` + data + `}],"cursor":null,"truncated":false,"hasMore":false,"nextPollMs":1}`
		}
		check(t, c.name, OutputSchema(json.RawMessage(c.payload)), page(c.good), page(c.bad))
	}
}

func check(t *testing.T, name string, schema json.RawMessage, good, bad string) {
	t.Helper()
	s, err := validate.Compile(schema)
	if err != nil {
		t.Errorf("%s: %v in %s", name, err, schema)
		return
	}
	if err := s.Validate(json.RawMessage(good)); err != nil {
		t.Errorf("%s: %s: %v", name, good, err)
	}
	if s.Validate(json.RawMessage(bad)) == nil {
		t.Errorf("%s: %s is valid", name, bad)
	}
}

// References in the mapping of a discriminator move with those of $ref; data that looks like a reference
// stays, wherever it is.
func TestOutputSchemaMovesReferences(t *testing.T) {
	const at = "#/properties/events/items/properties/data/$defs/A"
	out := string(OutputSchema(json.RawMessage(`{"type":"object","discriminator":{"propertyName":"kind","mapping":{"a":"#/$defs/A","b":"B"}},` +
		`"oneOf":[{"$ref":"#/$defs/A"}],"properties":{"discriminator":{"const":{"$ref":"#/$defs/A"}},"e":{"enum":[{"$ref":"#"}],"default":{"$ref":"#/$defs/A"}}},` +
		`"$defs":{"A":{"properties":{"kind":{"const":"a"}}}}}`)))
	for _, want := range []string{`"discriminator":{"propertyName":"kind","mapping":{"a":"` + at + `","b":"B"}}`, `"oneOf":[{"$ref":"` + at + `"}]`,
		`"discriminator":{"const":{"$ref":"#/$defs/A"}}`, `"enum":[{"$ref":"#"}],"default":{"$ref":"#/$defs/A"}`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}
