package ir_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Arrays and maps below $defs that hold themselves have a type of their own, as published schemas
// that are imported do; without one typing them would never end.
func TestSelfHoldingBelowDefs(t *testing.T) {
	for _, holder := range []string{
		"{type: array, items: {$ref: '#/$defs/T'}}",
		"{type: object, additionalProperties: {$ref: '#/$defs/T'}}",
		"{type: array, items: {type: object, additionalProperties: {$ref: '#/$defs/T'}}}",
		"{type: array, items: {oneOf: [{$ref: '#/$defs/T'}, {type: 'null'}]}}",
	} {
		file := strings.ReplaceAll(`version: 1
events:
  - name: a
    description: A.
    inputSchema: {type: object}
    payloadSchema: {type: object, properties: {t: {$ref: '#/$defs/T'}}, $defs: {T: HOLDER}}
`, "HOLDER", holder)
		set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		pkg, more := ir.Build(set, ir.Options{Package: "a"})
		if found = append(found, more...); source.HasErrors(found) {
			t.Errorf("%s: %v", holder, found)
			continue
		}
		named := false
		for _, d := range pkg.Files[0].Events[0].Decls {
			named = named || d.Form == ir.Defined
		}
		if !named {
			t.Errorf("%s: no defined type holds itself", holder)
		}
	}
}

// Where a reference to what holds it has keywords beside it, it is merged with them: no reference is left that could
// be a name, and the type gets one all the same.
func TestSelfHoldingBesideKeywords(t *testing.T) {
	for _, holder := range []string{
		"{type: object, additionalProperties: {$ref: '#/schemas/T', properties: {}, type: object}}",
		"{type: array, items: {$ref: '#/schemas/T', maxItems: 3, items: true}}",
		"{type: object, additionalProperties: {type: array, items: {$ref: '#/schemas/T', properties: {}}}}",
	} {
		file := strings.ReplaceAll(`version: 1
schemas: {T: HOLDER}
events:
  - name: a
    description: A.
    inputSchema: {type: object}
    payloadSchema: {type: object, properties: {t: {$ref: '#/schemas/T'}}}
`, "HOLDER", holder)
		set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		if _, more := ir.Build(set, ir.Options{Package: "a"}); source.HasErrors(append(found, more...)) {
			t.Errorf("%s: %v %v", holder, found, more)
		}
	}
}
