package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Q2: beyond 256 KB of published schemas there is one warning, at the largest event type, which says how large it is,
// what brings in most, and the way out; the override in it leads there.
func TestVeryLargeSchemas(t *testing.T) {
	file := func(words int) string {
		var b strings.Builder
		b.WriteString("version: 1\nschemas:\n  Top: {type: object, properties: {small: {$ref: '#/schemas/Small'}, big: {$ref: '#/schemas/Big'}}}\n  Small: {type: object, properties: {a: {type: string}}}\n")
		fmt.Fprintf(&b, "  Big: {type: object, properties: {more: {$ref: '#/schemas/More'}}}\n  More: {type: object, description: %s}\nevents:\n", strings.Repeat("word ", words))
		for _, e := range []string{"a.first", "a.second"} {
			fmt.Fprintf(&b, "  - {name: %s, description: Fires., inputSchema: {type: object, additionalProperties: false}, payloadSchema: {$ref: '#/schemas/Top'}}\n", e)
		}
		return b.String()
	}
	warned := func(text string, o *schema.Overrides) (found []source.Diagnostic) {
		set, diags := schema.Load([]string{"events.yaml"}, schema.Options{Overrides: o, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		if source.HasErrors(diags) {
			t.Fatal(diags)
		}
		_, diags = ir.Build(set, ir.Options{Package: "p"})
		for _, d := range diags {
			if d.Code == "MCPE218" {
				found = append(found, d)
			}
		}
		return found
	}
	if found := warned(file(50_000), nil); len(found) != 0 { // 250 KB
		t.Errorf("below the bound: %v", found)
	}
	found := warned(file(60_000), nil)
	if len(found) != 1 {
		t.Fatalf("above the bound: %d warnings", len(found))
	}
	for _, want := range []string{"2 event types publish more than 256 KB of schemas each, a.first the most: 293 KB"} {
		if !strings.Contains(found[0].Message, want) {
			t.Errorf("%s\nnot in %s", want, found[0].Message)
		}
	}
	if want := "Big brings in most: without it there are 0 KB; an override in mcpe.yaml cuts it off: {file: events.yaml, at: /schemas/Big, replace: {type: object}}"; !strings.Contains(found[0].Hint, want) {
		t.Errorf("%s\nnot in %s", want, found[0].Hint)
	}
	cut := strings.Replace(file(60_000), "  Big: {type: object, properties: {more: {$ref: '#/schemas/More'}}}", "  Big: {type: object}", 1)
	if found := warned(cut, nil); len(found) != 0 {
		t.Errorf("cut off: %v", found)
	}
}

// The override that the warning about very large schemas proposes names the place of the definition, in whichever file
// it is, and cuts it off there.
func TestVeryLargeSchemasElsewhere(t *testing.T) {
	files := map[string]string{
		"events.yaml": "version: 1\nevents:\n" +
			"  - {name: a, description: Fires., inputSchema: {type: object, additionalProperties: false}, payloadSchema: {type: object, properties: {r: {$ref: 'fhir.json#/definitions/Resource~1List'}, s: {$ref: 'fhir.json#/definitions/Small'}}}}\n",
		"fhir.json": `{"definitions": {"Resource/List": {"type": "object", "description": "` + strings.Repeat("word ", 60_000) + `"}, "Small": {"type": "object"}}}`,
	}
	read := func(path string) ([]byte, error) { return []byte(files[path]), nil }
	warned := func(o *schema.Overrides) (hints []string) {
		set, diags := schema.Load([]string{"events.yaml"}, schema.Options{Overrides: o, ReadFile: read})
		if source.HasErrors(diags) {
			t.Fatal(diags)
		}
		_, diags = ir.Build(set, ir.Options{Package: "p"})
		for _, d := range diags {
			if d.Code == "MCPE218" {
				hints = append(hints, d.Hint)
			}
		}
		return hints
	}
	const proposed = "{file: fhir.json, at: '/definitions/Resource~1List', replace: {type: object}}"
	if hints := warned(nil); len(hints) != 1 || !strings.HasSuffix(hints[0], proposed) {
		t.Fatalf("got %q", hints)
	}
	cfg, found := config.Load("mcpe.yaml", func(string) ([]byte, error) {
		return []byte("version: 1\npackages: [{schemas: [events.yaml], out: p}]\noverrides: [" + proposed + "]\n"), nil
	})
	if len(found) > 0 {
		t.Fatal(found)
	}
	o := cfg.Reading().Overrides
	if hints := warned(o); len(hints) > 0 {
		t.Errorf("with the override: %q", hints)
	}
}

// The definition that the warning proposes to cut off is below that of the payload, also where both lead to each other.
func TestVeryLargeSchemasOfCycle(t *testing.T) {
	files := map[string]string{
		"events.yaml": "version: 1\nevents:\n  - {name: a, description: Fires., inputSchema: {type: object, additionalProperties: false}, payloadSchema: {$ref: 'fhir.json#/definitions/R1'}}\n",
		"fhir.json": `{"definitions": {"R1": {"type": "object", "properties": {"contained": {"$ref": "#/definitions/ResourceList"}, "next": {"$ref": "#/definitions/R1"}}},
			"R2": {"type": "object", "description": "` + strings.Repeat("word ", 60_000) + `"},
			"ResourceList": {"oneOf": [{"$ref": "#/definitions/R1"}, {"$ref": "#/definitions/R2"}]}}}`,
	}
	set, diags := schema.Load([]string{"events.yaml"}, schema.Options{ReadFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }})
	if source.HasErrors(diags) {
		t.Fatal(diags)
	}
	_, diags = ir.Build(set, ir.Options{Package: "p"})
	for _, d := range diags {
		if d.Code == "MCPE218" && strings.Contains(d.Hint, "at: /definitions/ResourceList,") {
			return
		}
	}
	t.Errorf("got %v, want an override of ResourceList", diags)
}
