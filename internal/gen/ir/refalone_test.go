package ir_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// In draft-07 the siblings of a $ref mean nothing, whether they stand before it or after it.
func TestSiblingsOfARef(t *testing.T) {
	for _, part := range []string{
		"{properties: {ignored: {type: string}}, allOf: [{properties: {too: {type: string}}}], $ref: '#/schemas/B'}",
		"{$ref: '#/schemas/B', properties: {ignored: {type: string}}, allOf: [{properties: {too: {type: string}}}]}",
	} {
		file := strings.ReplaceAll(`version: 1
dialect: draft-07
schemas: {B: {type: object, properties: {b: {type: string}}}}
events:
  - name: a
    description: A.
    inputSchema: {type: object}
    payloadSchema: {type: object, allOf: [PART, {properties: {c: {type: string}}}]}
`, "PART", part)
		set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		pkg, more := ir.Build(set, ir.Options{Package: "a"})
		if found = append(found, more...); source.HasErrors(found) {
			t.Fatalf("%s: %v", part, found)
		}
		var names []string
		for _, f := range pkg.Files[0].Events[0].Payload.Fields {
			names = append(names, f.JSON)
		}
		if got := strings.Join(names, " "); got != "b c" {
			t.Errorf("%s: the members %s", part, got)
		}
	}
}
