package schemadir_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/schemadir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

var directory = fstest.MapFS{
	"orders/created.schema.json": {Data: []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/orders/created.json","title":"Order created",
"type":"object","properties":{"type":{"const":"com.example.order.created.v1"},"by":{"$ref":"../person.json"},"id":{"$ref":"#/$defs/id"},"level":{"$ref":"https://example.com/types.json#/$defs/level"}},
"required":["type"],"$defs":{"id":{"type":"string"}},"examples":[1]}`)},
	"orders/gone.yaml": {Data: []byte("type: object\ndescription: An order is gone.\nproperties:\n  type: {enum: [com.example.order.gone.v1]}\n  whole: {$ref: '#'}\n")},
	"person.json":      {Data: []byte(`{"type":"object","title":"Person","properties":{"boss":{"$ref":"person.json"},"level":{"$ref":"types.json#/$defs/level"}}}`)},
	"types.json":       {Data: []byte(`{"$id":"https://example.com/types.json","$defs":{"level":{"type":"string","enum":["low","high"]}}}`)},
	"broken.json":      {Data: []byte(`{`)},
	"list.json":        {Data: []byte(`[]`)},
	"away.json":        {Data: []byte(`{"title":"Away","type":"object","properties":{"type":{"const":"away"},"x":{"$ref":"https://example.org/x.json"}}}`)},
	"again.json":       {Data: []byte(`{"type":"object","properties":{"type":{"const":"com.example.order.gone.v1"}}}`)},
	"readme.md":        {Data: []byte(`# Schemas`)},
	"old.json":         {Data: []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","title":"Old","type":"object","definitions":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/a"}}}`)},
}

func read(t *testing.T, from string) (string, string) {
	t.Helper()
	doc, found, err := schemadir.Read(directory, "dir", from, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, more, err := importer.Write(doc, importer.Options{From: "dir"})
	if err != nil {
		t.Fatal(err)
	}
	set, loaded := schema.Load([]string{"file.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
	_, built := ir.Build(set, ir.Options{Package: "file"})
	for _, d := range append(loaded, built...) {
		if d.Severity == source.Error {
			t.Errorf("%s\n%s", d, file)
		}
	}
	var lines []string
	for _, d := range append(found, more...) {
		lines = append(lines, d.String())
	}
	return string(file), strings.Join(lines, "\n")
}

func names(file string) []string {
	var out []string
	for line := range strings.Lines(file) {
		if name, ok := strings.CutPrefix(line, "  - name: "); ok {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

// What names events: the file, a title, or what a pointer leads to; files that others refer to are shared.
func TestEventFrom(t *testing.T) {
	for from, want := range map[string][]string{
		schemadir.ByFilename:     {"again", "old", "orders.created", "orders.gone"},
		schemadir.ByTitle:        {"Old", "Order.created", "Person"},
		"/properties/type":       {"com.example.order.gone.v1", "com.example.order.created.v1"},
		"/properties/type/const": {"com.example.order.gone.v1", "com.example.order.created.v1"},
	} {
		file, found := read(t, from)
		if diff := cmp.Diff(want, names(file)); diff != "" {
			t.Errorf("%s: %s\n%s\n%s", from, diff, file, found)
		}
		for _, want := range []string{"dir/broken.json:1:2: warning MCPE511: broken.json is left out: ", "dir/list.json:1:1: warning MCPE511: list.json is left out: it is not a JSON Schema but a JSON array"} {
			if !strings.Contains(found, want) {
				t.Errorf("%s: no %q in\n%s", from, want, found)
			}
		}
	}
	if err := schemadir.CheckFrom("name"); err == nil || !strings.Contains(err.Error(), "filename, title, or a JSON Pointer") {
		t.Error(err)
	}
}

// References lead to shared schemas, by path or by $id; those within a file stay as they are.
func TestReferences(t *testing.T) {
	file, found := read(t, "/properties/type")
	for _, want := range []string{
		"        by: {$ref: '#/schemas/person'}\n", "        id: {$ref: '#/$defs/id'}\n", "        level: {$ref: '#/schemas/types/$defs/level'}\n",
		"      boss: {$ref: '#'}\n",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in\n%s", want, file)
		}
	}
	if file, _ := read(t, schemadir.ByFilename); !strings.Contains(file, "        whole: {$ref: '#'}\n") {
		t.Error(file)
	}
	for _, want := range []string{
		"dir/away.json:1:63: warning MCPE511: away.json is left out: it refers to https://example.org/x.json, which is not in the directory",
		"warning MCPE511: orders/gone.yaml is left out: again.json describes the event \"com.example.order.gone.v1\" too",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in\n%s", want, found)
		}
	}
}
