package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

const modelFile = "model.json"

// Each golden case that generates has its model and its TypeScript beside it; the model validates (MODEL-2, TS-1).
func TestGoldenModel(t *testing.T) {
	schema := modelSchema(t)
	tried := 0
	for name, c := range goldenCases(t) {
		p, _, err := gen.Inspect(t.Context(), c.request)
		if err != nil || p == nil {
			continue // a case about diagnostics
		}
		tried++
		t.Run(name, func(t *testing.T) {
			doc := encodeModel(t, p)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("MODEL-2: %v", err)
			}
			c.compare(t, modelFile, doc)
			c.compare(t, "events.ts", typescriptOf(t, p)["events.ts"])
			checkDefs(t, p)
		})
	}
	if tried < 30 {
		t.Errorf("only %d cases generate", tried)
	}
}

// compare holds text to what is committed beside the case.
func (c goldenCase) compare(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readText(t, path), string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func encodeModel(t *testing.T, p *model.Package) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(model.Document{Version: model.Version, Packages: []*model.Package{p}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// typescriptOf is all TypeScript of a package.
func typescriptOf(t *testing.T, p *model.Package) map[string][]byte {
	t.Helper()
	options, err := json.Marshal(typescript.Options{Emit: typescript.Parts})
	if err != nil {
		t.Fatal(err)
	}
	r, err := typescript.Emit(plugin.Request{Version: model.Version, Options: options, Packages: []*model.Package{p}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range r.Files {
		files[f.Path] = []byte(f.Text)
	}
	return files
}

// checkDefs follows every reference of a model into its definitions, and takes samples of what is published for values
// of them (MODEL-1).
func checkDefs(t *testing.T, p *model.Package) {
	t.Helper()
	defs := map[string]any{}
	for name, raw := range p.Defs {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		defs[name] = v
	}
	check := func(pointer string) json.RawMessage {
		whole, err := json.Marshal(map[string]any{"$ref": pointer, "$defs": defs})
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	named := map[string]bool{}
	for _, d := range p.Types {
		if named[d.Name] {
			t.Errorf("MODEL-1: two types are called %s", d.Name)
		}
		named[d.Name] = true
	}
	for _, d := range p.Types {
		if _, err := validate.Compile(check(d.Schema)); err != nil {
			t.Errorf("MODEL-1: the schema of %s: %v", d.Name, err)
		}
		eachType(d.Type, func(x model.Type) {
			if x.Kind == model.Ref && !named[x.Ref] {
				t.Errorf("MODEL-1: %s refers to %q", d.Name, x.Ref)
			}
		})
	}
	for _, e := range p.Events {
		text := check(e.Payload.Schema)
		s, err := validate.Compile(text)
		if err != nil {
			t.Fatalf("MODEL-1: %s: %v", e.Name, err)
		}
		if v, ok := sample.Value(text); ok {
			if err := s.Validate(v); err != nil {
				t.Errorf("MODEL-1: %s: %v", e.Name, err)
			}
		}
	}
}

// eachType calls f with a type and all within it.
func eachType(t model.Type, f func(model.Type)) {
	f(t)
	for _, inner := range []*model.Type{t.Items, t.Rest, t.Extra} {
		if inner != nil {
			eachType(*inner, f)
		}
	}
	for _, e := range slices.Concat(t.Elements, t.Known) {
		eachType(e, f)
	}
	for _, p := range t.Patterns {
		eachType(p.Type, f)
	}
	for _, c := range t.Choices {
		t.Variants = append(t.Variants, c.Variants...)
	}
	for _, m := range t.Members {
		eachType(m.Type, f)
	}
	for _, v := range t.Variants {
		eachType(v.Type, f)
	}
}

func modelSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(model.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///model.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///model.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the model of the incidents says that the Go types do not: rules with their places, why a value is any, tags,
// tuples, bounds (MODEL-1, MODEL-3).
func TestModelSays(t *testing.T) {
	const file = `
version: 1
package: says
events:
  - name: thing.done
    description: A thing is done.
    deprecated: {replacedBy: other.done, removeAfter: 2030-01-01}
    inputSchema:
      type: object
      properties: {owner: {type: string, x-match: /owner/id}}
    payloadSchema:
      type: object
      required: [owner]
      properties:
        owner: {type: object, required: [id], properties: {id: {type: string, minLength: 2, pattern: '^u'}}}
        pair: {type: array, prefixItems: [{type: string}, {type: integer, maximum: 9}], items: false, minItems: 1}
        capped: {type: array, prefixItems: [{type: string}, {type: number}, {type: object, properties: {x: {type: number}}}], maxItems: 2.0}
        either: {type: [string, integer], description: One or the other.}
        any: {}
        tagged: {oneOf: [{$ref: '#/schemas/A'}, {$ref: '#/schemas/B'}]}
        when: {type: string, format: date-time, default: '2026-01-01T00:00:00Z'}
        id: {type: string, format: uuid, x-go-type: github.com/google/uuid.UUID}
        untagged: {anyOf: [{type: string}, {type: object, properties: {x: {type: number}}}]}
  - {name: other.done, description: More., inputSchema: {type: object}, payloadSchema: {type: object, properties: {}}}
schemas:
  A: {type: object, required: [k], properties: {k: {const: a}}}
  B: {type: object, required: [k], properties: {k: {const: b}}}
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "says.yaml"), []byte(file), 0o666); err != nil {
		t.Fatal(err)
	}
	p, found, err := gen.Inspect(t.Context(), gen.Request{Dir: dir, Files: []string{"says.yaml"}, Emit: []string{"types"}})
	if err != nil || p == nil {
		t.Fatal(found, err)
	}
	e := p.Events[0]
	if e.Deprecated == nil || e.Deprecated.ReplacedBy != "other.done" || len(e.Match) != 1 ||
		!slices.Equal(e.Match[0].Places, []string{"#/$defs/ThingDonePayload/properties/owner/properties/id"}) {
		t.Errorf("MODEL-1: %+v", e)
	}
	types := map[string]model.Type{}
	for _, d := range p.Types {
		for _, m := range d.Type.Members {
			types[d.Name+"."+m.Name] = m.Type
		}
		types[d.Name] = d.Type
	}
	got := map[string]string{}
	types["ThingDonePayload.either"], types["ThingDonePayload.untagged"] = types["ThingDonePayloadEither"], types["ThingDonePayloadUntagged"]
	for _, m := range []string{"pair", "capped", "either", "any", "tagged", "when", "id", "untagged"} {
		raw, err := json.Marshal(types["ThingDonePayload."+m])
		if err != nil {
			t.Fatal(err)
		}
		got[m] = string(raw)
	}
	raw, _ := json.Marshal(types["ThingDonePayloadTagged"].Variants)
	got["variants"] = string(raw)
	raw, _ = json.Marshal(types["ThingDonePayloadOwner.id"])
	got["bounds"] = string(raw)
	want := map[string]string{
		"pair":     `{"kind":"tuple","elements":[{"kind":"string"},{"kind":"integer","maximum":9}],"minItems":1}`,
		"capped":   `{"kind":"tuple","elements":[{"kind":"string"},{"kind":"number"}],"maxItems":2.0}`,
		"either":   `{"kind":"union","variants":[{"type":{"kind":"string"},"go":"ThingDonePayloadEitherString"},{"type":{"kind":"integer"},"go":"ThingDonePayloadEitherNumber"}]}`,
		"any":      `{"kind":"any","reason":"the schema has no type and allows any value"}`,
		"tagged":   `{"kind":"ref","ref":"ThingDonePayloadTagged"}`,
		"when":     `{"kind":"string","format":"date-time"}`,
		"id":       `{"kind":"string","format":"uuid"}`,
		"untagged": `{"kind":"union","variants":[{"type":{"kind":"string"},"go":"ThingDonePayloadUntaggedString"},{"type":{"kind":"ref","ref":"ThingDonePayloadUntaggedObject"}}]}`,
		"variants": `[{"tags":["a"],"title":"A","type":{"kind":"ref","ref":"A"}},{"tags":["b"],"title":"B","type":{"kind":"ref","ref":"B"}}]`,
		"bounds":   `{"kind":"string","pattern":"^u","minLength":2}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MODEL-3 (-want +got):\n%s", diff)
	}
	if d, ok := types["ThingDonePayloadCappedItem3"]; ok {
		t.Errorf("MODEL-3: an element that maxItems excludes has the definition %+v", d)
	}
}

// Names that TypeScript uses otherwise give way, each to a name that is free, and never twice (TS-5).
func TestTypeScriptNames(t *testing.T) {
	p := &model.Package{}
	for _, n := range []string{"Events", "EventsType", "Record", "Person", "PersonOrUnknown"} {
		d := model.Definition{Name: n, Type: model.Type{Kind: model.String}}
		if n == "Person" {
			d.Type = model.Type{Kind: model.Union, Discriminator: "k"}
		}
		p.Types = append(p.Types, d)
	}
	typescript.Name(p)
	var got []string
	for _, d := range p.Types {
		got = append(got, fmt.Sprint(d.TS.Name, " ", d.TS.OrUnknown))
	}
	want := []string{"EventsType2 ", "EventsType ", "RecordType ", "Person PersonOrUnknown2", "PersonOrUnknown "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("TS-5: %s", diff)
	}
}
