package schema_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func TestEachAndViews(t *testing.T) {
	const file = `version: 1
schemas:
  A:
    allOf: [{$ref: '#/schemas/B'}]
    properties: {items: {type: array, items: {type: string}}, b: true}
    additionalProperties: false
    enum: [{properties: {}}]
  B: {not: {type: string}, dependentSchemas: {x: {}}}
`
	set, found := schema.Load([]string{"f.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	if len(found) > 0 {
		t.Fatal(found)
	}
	show := func(entry int) string {
		var all []string
		set.Each(set.Files[0].Schemas[entry].Node, func(keyword, name string, _ *source.Node) {
			all = append(all, keyword+"."+name)
		})
		return strings.Join(all, " ")
	}
	if got, want := show(0), "allOf. properties.items properties.b additionalProperties."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := show(1), "not. dependentSchemas.x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := len(set.Views(set.Files[0].Schemas[0].Node)); got != 3 {
		t.Errorf("%d views, want A, its allOf and B", got)
	}
}
