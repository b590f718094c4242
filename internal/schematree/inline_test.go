package schematree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// HOST-4: references give way to what they refer to, in the order of the text; data stays.
func TestInline(t *testing.T) {
	const draft07 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	for _, c := range []struct{ name, in, want string }{
		{"nothing", `{"type":"object","$defs":{"A":{}}}`, `{"type":"object","$defs":{"A":{}}}`},
		{"a chain, wherever schemas are", `{"properties":{"b":{"$ref":"#/$defs/B"},"a":{"items":{"$ref":"#/$defs/A"}},"c":{"anyOf":[{"$ref":"#/$defs/A"},true]}},"$defs":{"A":{"type":"string"},"B":{"$ref":"#/$defs/A"}}}`,
			`{"properties":{"b":{"type":"string"},"a":{"items":{"type":"string"}},"c":{"anyOf":[{"type":"string"},true]}}}`},
		{"data, and a property called $ref", `{"properties":{"$ref":{"$ref":"#/$defs/A"}},"const":{"$ref":"#/$defs/A"},"$defs":{"A":{}}}`, `{"properties":{"$ref":{}},"const":{"$ref":"#/$defs/A"}}`},
		{"the root", `{"$ref":"#/$defs/A","description":"own","$defs":{"A":{"description":"A","type":"object"}}}`, `{"description":"own","type":"object"}`},
		{"annotations", `{"items":{"$ref":"#/$defs/A","description":"own","x-go-name":"N"},"$defs":{"A":{"description":"A","enum":["<"]}}}`, `{"items":{"description":"own","enum":["<"],"x-go-name":"N"}}`},
		{"assertions", `{"items":{"$ref":"#/$defs/A","type":"object","required":["a"]},"$defs":{"A":{"type":"object"}}}`, `{"items":{"type":"object","required":["a"]}}`},
		{"assertions of both", `{"items":{"$ref":"#/$defs/A","required":["a"],"allOf":[{}]},"$defs":{"A":{"required":["b"]}}}`, `{"items":{"required":["a"],"allOf":[{"required":["b"]},{}]}}`},
		{"siblings that see others", `{"items":{"$ref":"#/$defs/A","additionalProperties":false},"$defs":{"A":{"properties":{"a":{}}}}}`, `{"items":{"additionalProperties":false,"allOf":[{"properties":{"a":{}}}]}}`},
		{"draft-07", `{` + draft07 + `,"items":{"$ref":"#/definitions/A","type":"string","minimum":5,"title":"T"},"definitions":{"A":{"type":"integer"}}}`, `{` + draft07 + `,"items":{"type":"integer","title":"T"}}`},
		{"a recursive definition and what it needs", `{"properties":{"t":{"$ref":"#/$defs/T"},"s":{"$ref":"#/$defs/S"}},"$defs":{"S":{"type":"string"},"T":{"properties":{"t":{"$ref":"#/$defs/U"},"s":{"$ref":"#/$defs/S"}}},"U":{"items":{"$ref":"#/$defs/T"}},"V":{}}}`,
			`{"properties":{"t":{"$ref":"#/$defs/T"},"s":{"type":"string"}},"$defs":{"T":{"properties":{"t":{"$ref":"#/$defs/U"},"s":{"type":"string"}}},"U":{"items":{"$ref":"#/$defs/T"}}}}`},
		{"a recursive root", `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"properties":{"self":{"$ref":"#/$defs/a~1b"}}}}}`, `{"properties":{"self":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"properties":{"self":{"$ref":"#/$defs/a~1b"}}}}}`},
		{"a circle", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`, `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`},
		{"the whole", `{"items":{"$ref":"#"},"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{}}}`, `{"items":{"$ref":"#"},"properties":{"a":{}}}`},
		{"no target", `{"items":{"$ref":"#/$defs/B"},"not":{"$ref":"other.json"},"$defs":{"A":{}}}`, `{"items":{"$ref":"#/$defs/B"},"not":{"$ref":"other.json"}}`},
		{"a discriminator", `{"oneOf":[{"$ref":"#/$defs/A"}],"discriminator":{"propertyName":"k","mapping":{"a":"#/$defs/A"}},"$defs":{"A":{"properties":{"k":{"const":"a"}}}}}`, `{"oneOf":[{"properties":{"k":{"const":"a"}}}]}`},
		{"an identifier", `{"$ref":"#/$defs/A","$defs":{"A":{"items":{"$ref":"#x"}},"B":{"$anchor":"x"}}}`, `{"items":{"$ref":"#x"},"$defs":{"A":{"items":{"$ref":"#x"}},"B":{"$anchor":"x"}}}`},
		{"no object", `true`, `true`},
	} {
		if got := string(schematree.Inline(json.RawMessage(c.in))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// HOST-4: definitions that double at each step do not make a schema of gigabytes. Only the root is replaced.
func TestInlineIsBounded(t *testing.T) {
	defs := `"Level0":{"type":"string"}`
	for i := 1; i <= 40; i++ {
		defs += fmt.Sprintf(`,"Level%d":{"items":[{"$ref":"#/$defs/Level%d"},{"$ref":"#/$defs/Level%d"}]}`, i, i-1, i-1)
	}
	got := string(schematree.Inline(json.RawMessage(`{"$ref":"#/$defs/Level40","$defs":{` + defs + `}}`)))
	if want := `{"items":[{"$ref":"#/$defs/Level39"},{"$ref":"#/$defs/Level39"}],"$defs":{` + defs + `}}`; got != want {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	// The definitions that a recursive schema keeps count too.
	recursive := `{"items":{"$ref":"#/$defs/R"},"$defs":{"R":{"items":[{"$ref":"#/$defs/R"},{"$ref":"#/$defs/Level40"}]},` + defs + `}}`
	if got := string(schematree.Inline(json.RawMessage(recursive))); got != recursive {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	large := `{"items":{"$ref":"#/$defs/A"},"$defs":{"A":{"description":"` + strings.Repeat("x", 63<<10) + `"}}}`
	if got := string(schematree.Inline(json.RawMessage(large))); strings.Contains(got, "$ref") || len(got) < 63<<10 {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}
