package mcpc

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// MCPC-SRV-2: what a result's schema refers to is found from its new place, in both dialects, also where it refers to
// itself or is a document of its own.
func TestOutputSchemaRefs(t *testing.T) {
	for _, result := range []string{
		`{"type":"object","properties":{"pages":{"$ref":"#/$defs/Pages"},"next":{"$ref":"#"}},"required":["pages"],"additionalProperties":false,"$defs":{"Pages":{"type":"integer"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"pages":{"$ref":"#/definitions/Pages"},"next":{"$ref":"#"}},"required":["pages"],"additionalProperties":false,"definitions":{"Pages":{"type":"integer"}}}`,
		`{"$id":"https://example.com/report","type":"object","properties":{"pages":{"$ref":"#/$defs/Pages"},"next":{"$ref":"#"}},"required":["pages"],"additionalProperties":false,"$defs":{"Pages":{"type":"integer"}}}`,
	} {
		out, err := outputSchema(json.RawMessage(result))
		if err != nil {
			t.Fatal(err)
		}
		s, err := validate.Compile(out)
		if err != nil {
			t.Errorf("%s: %v", out, err)
			continue
		}
		for value, valid := range map[string]bool{
			`{"pages":3}`:                          true,
			`{"pages":3,"next":{"pages":4}}`:       true,
			`{"pages":3,"next":{"pages":"4"}}`:     false,
			`{"pages":3,"next":{"pages":4,"x":1}}`: false,
			`{"type":"task","event":"created"}`:    false,
			`{"type":"task","event":"created","session_id":"s","task_id":"t","tool_name":"n","result":"Started.","protocol":"mcpc"}`: true,
		} {
			if err := s.Validate(json.RawMessage(value)); (err == nil) != valid {
				t.Errorf("%s: %s: %v", result, value, err)
			}
		}
	}
}
