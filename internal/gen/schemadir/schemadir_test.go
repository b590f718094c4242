package schemadir_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schemadir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
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

// Files of the directory that are not JSON Schema are left out, whichever way names the events, and say what they are.
// Whatever another file refers to is a schema.
func TestOtherFilesAreLeftOut(t *testing.T) {
	dir := fstest.MapFS{
		"api.yml":          {Data: []byte("openapi: 3.0.2\ninfo: {title: API, version: '1'}\npaths: {}\ncomponents: {schemas: {Run: {type: object}}}\n")},
		"old-api.json":     {Data: []byte(`{"swagger":"2.0","title":"API","definitions":{}}`)},
		"lights.yaml":      {Data: []byte("asyncapi: 2.6.0\ntitle: Lights\n")},
		"events.yaml":      {Data: []byte("version: 1\nevents: []\n")},
		"registry.json":    {Data: []byte(`{"title":"Registry","description":"The producers.","version":"1","producer":{"root":"https://example.com"},"consumers":["a"]}`)},
		"package.json":     {Data: []byte(`{"$schema":"https://json.schemastore.org/package.json","name":"a","title":"A","type":"module","items":[1],"required":true}`)},
		"stats/a.json":     {Data: []byte(`{"$schema":"https://example.com/Stats.schema.json","title":"A","type":"object","properties":{}}`)},
		"stats/b.json":     {Data: []byte(`{"$schema":"../stats.yml","title":"B","required":[]}`)},
		"stats/c.json":     {Data: []byte(`{"$schema":"https://example.com/C.schema.json","title":"C","properties":{"a":1}}`)},
		"stats.yml":        {Data: []byte("{$id: https://example.com/Stats.schema.json, title: Stats, properties: {a: {type: integer}}}")},
		"own.json":         {Data: []byte(`{"$schema":"https://example.com/meta","title":"Own","type":"object"}`)},
		"meta.json":        {Data: []byte(`{"$id":"https://example.com/meta","$vocabulary":{},"title":"Meta","type":"object"}`)},
		"none.json":        {Data: []byte(`{}`)},
		"any.json":         {Data: []byte(`{"description":"Anything."}`)},
		"said.json":        {Data: []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","title":"Said"}`)},
		"nullable.json":    {Data: []byte(`{"type":["object","null"],"title":"Nullable"}`)},
		"constrained.json": {Data: []byte(`{"required":["a"],"title":"Constrained"}`)},
		"user.json":        {Data: []byte(`{"title":"User","properties":{"a":{"$ref":"any.json"}}}`)},
		"runner.json":      {Data: []byte(`{"title":"Runner","properties":{"a":{"$ref":"api.yml#/components/schemas/Run"}}}`)},
	}
	for from, want := range map[string][]string{
		schemadir.ByFilename: {"constrained", "meta", "nullable", "own", "said", "stats", "user"},
		schemadir.ByTitle:    {"Constrained", "Meta", "Nullable", "Own", "Said", "Stats", "User"},
	} {
		doc, found, err := schemadir.Read(dir, "dir", from, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got, lines []string
		for _, e := range doc.Events {
			got = append(got, e.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		for _, d := range found {
			lines = append(lines, d.String())
		}
		const data = " is left out: it is not a JSON Schema, since it has no keyword such as type or properties"
		if diff := cmp.Diff([]string{
			"dir/api.yml:1:1: warning MCPE511: api.yml is left out: it is an OpenAPI document",
			"dir/events.yaml:1:1: warning MCPE511: events.yaml is left out: it is an event file already",
			"dir/lights.yaml:1:1: warning MCPE511: lights.yaml is left out: it is an AsyncAPI document",
			"dir/none.json:1:1: warning MCPE511: none.json" + data,
			"dir/old-api.json:1:1: warning MCPE511: old-api.json is left out: it is an OpenAPI document",
			"dir/package.json:1:1: warning MCPE511: package.json" + data,
			"dir/registry.json:1:1: warning MCPE511: registry.json" + data,
			"dir/stats/a.json:1:1: warning MCPE511: stats/a.json is left out: it is data, since its $schema is stats.yml, a schema and not a dialect of JSON Schema",
			"dir/stats/b.json:1:1: warning MCPE511: stats/b.json is left out: it is data, since its $schema is stats.yml, a schema and not a dialect of JSON Schema",
			"dir/stats/c.json:1:1: warning MCPE511: stats/c.json" + data,
		}, slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.Contains(l, "runner.json") })); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, "runner.json is left out: it refers to api.yml#/components/schemas/Run, which is an OpenAPI document") {
			t.Errorf("%s: a reference into the OpenAPI document: %s", from, all)
		}
		if len(doc.Schemas) != 1 || doc.Schemas[0].Name != "any" {
			t.Errorf("%s: shared schemas %v, want any", from, doc.Schemas)
		}
	}
}
