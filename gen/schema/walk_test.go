package schema_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

func TestInnerAndViews(t *testing.T) {
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
		for _, i := range set.Inner(set.Files[0].Schemas[entry].Node) {
			s := i.Keyword + "." + i.Name
			if i.InPlace {
				s += "!"
			}
			all = append(all, s)
		}
		return strings.Join(all, " ")
	}
	if got, want := show(0), "allOf.! properties.items properties.b additionalProperties."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := show(1), "not.! dependentSchemas.x!"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := len(set.Views(set.Files[0].Schemas[0].Node)); got != 3 {
		t.Errorf("%d views, want A, its allOf and B", got)
	}
}
