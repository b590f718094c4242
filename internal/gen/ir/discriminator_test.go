package ir_test

import (
	"slices"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Without a const and a mapping, the tag of a variant is the name of its schema, which a $ref escapes.
func TestTagsOfReferences(t *testing.T) {
	const file = `version: 1
events:
  - name: a
    description: A.
    inputSchema: {type: object}
    payloadSchema:
      type: object
      properties:
        pet:
          oneOf: [{$ref: '#/$defs/a~1b'}, {$ref: '#/$defs/c%20d'}, {$ref: '#e'}]
          discriminator: {propertyName: kind}
      $defs:
        a/b: {type: object, properties: {kind: {type: string}}}
        c d: {type: object, properties: {kind: {type: string}}}
        f: {$anchor: e, type: object, properties: {kind: {type: string}}}
`
	set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	pkg, more := ir.Build(set, ir.Options{Package: "a"})
	if found = append(found, more...); source.HasErrors(found) {
		t.Fatal(found)
	}
	var tags []string
	for _, v := range pkg.Files[0].Events[0].Payload.Fields[0].Base.Target().Variants {
		tags = append(tags, v.Tags...)
	}
	if want := []string{"a/b", "c d", "e"}; !slices.Equal(tags, want) {
		t.Errorf("the tags %q, want %q", tags, want)
	}
}
