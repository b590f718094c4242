package asyncapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// eventFiles are the event files of the repository that load.
func eventFiles(t *testing.T) map[string]*schema.Set {
	t.Helper()
	sets := map[string]*schema.Set{}
	for _, pattern := range []string{"../../../examples/schemas/*.yaml", "../../../golden/*/*.yaml", "testdata/repeated.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			set, found := schema.Load([]string{file}, schema.Options{})
			if !source.HasErrors(found) && len(set.Files[0].Events) > 0 {
				sets[file] = set
			}
		}
	}
	if len(sets) < 10 {
		t.Fatalf("only %d event files load", len(sets))
	}
	return sets
}

// What is exported and imported again publishes equal descriptors, and says the same of sources,
// replay, stability, deprecation and filters.
func TestExportIsImportedWithoutLoss(t *testing.T) {
	for file, set := range eventFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doc, _ := asyncapi.Export(set, asyncapi.Options{Title: "Test", Version: "1.0.0"})
			for _, asJSON := range []bool{false, true} {
				text, err := asyncapi.Text(doc, asJSON)
				if err != nil {
					t.Fatal(err)
				}
				events, found := asyncapi.Read("doc.yaml", text)
				if len(found) > 0 || events.Title != "Test" {
					t.Fatalf("%q %v\n%s", events.Title, found, text)
				}
				file, found, err := importer.Write(events, importer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range found {
					if d.Severity < source.Note {
						t.Error(d)
					}
				}
				again, found := schema.Load([]string{"again.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
				if source.HasErrors(found) {
					t.Fatalf("%v\n%s", found, file)
				}
				same(t, set, again)
			}
		})
	}
}

func same(t *testing.T, want, got *schema.Set) {
	t.Helper()
	n := 0
	for _, f := range want.Files {
		for _, w := range f.Events {
			g := got.Files[0].Events[n]
			n++
			// A plain JSON Schema file becomes one shared schema, so that its definitions are reached through it.
			if print(t, want, w) != print(t, got, g) && filepath.Base(f.Path) != "documents.yaml" {
				t.Errorf("%s publishes\n%s\n%s\nnot\n%s\n%s", w.Name, got.Published(g.Input), got.Published(g.Payload), want.Published(w.Input), want.Published(w.Payload))
			}
			if g.Name != w.Name || g.Description != w.Description || g.Source != w.Source || g.Replay != w.Replay || g.Stability != w.Stability ||
				strings.Join(g.Delivery, " ") != strings.Join(w.Delivery, " ") || (g.Deprecated == nil) != (w.Deprecated == nil) || g.Deprecated != nil && *g.Deprecated != *w.Deprecated {
				t.Errorf("got %+v, want %+v", g, w)
			}
			if g.Actor != w.Actor {
				t.Errorf("%s: the actor is %q, not %q", w.Name, g.Actor, w.Actor)
			}
			rules := map[string]string{}
			for _, m := range g.Match {
				rules[m.Argument] = m.Words() + m.Path
			}
			for _, m := range w.Match {
				if rules[m.Argument] != m.Words()+m.Path {
					t.Errorf("%s: the filter of %s is %q, not %s%s", w.Name, m.Argument, rules[m.Argument], m.Words(), m.Path)
				}
			}
		}
	}
}

func print(t *testing.T, set *schema.Set, e *schema.Event) string {
	t.Helper()
	f, err := wire.Fingerprint(set.Published(e.Input), set.Published(e.Payload))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A document of somebody else becomes event types: what the application sends, with the schemas that
// are referred to.
func TestReadForeign(t *testing.T) {
	text, err := os.ReadFile("testdata/streetlights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	events, found := asyncapi.Read("streetlights.yaml", text)
	if events.Title != "Streetlights" {
		t.Error(events.Title)
	}
	got, more, err := importer.Write(events, importer.Options{From: "streetlights.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/streetlights.want.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var lines []string
	for _, d := range append(found, more...) {
		lines = append(lines, d.String())
	}
	wanted := []string{
		"streetlights.yaml:17:3: warning MCPE511: channel commands is left out: the application only receives its messages",
		"streetlights.yaml:30:7: warning MCPE511: message avro is left out: its payload is written in application/vnd.apache.avro;version=1.9.0, not in JSON Schema",
		"streetlights.yaml:34:7: warning MCPE511: message elsewhere is left out: it refers to ./other.yaml#/Light, another document, which was not read",
		"streetlights.yaml:36:7: warning MCPE511: message empty is left out: it has no payload",
		`streetlights.yaml:61:22: warning MCPE502: the discriminator "kind" is left out, and its subtypes are not told apart: the schema does not list them`,
	}
	for _, w := range wanted {
		if !strings.Contains(strings.Join(lines, "\n"), w) {
			t.Errorf("no %q in\n%s", w, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != len(wanted)+1 || !strings.Contains(lines[len(lines)-1], `event "text" is left out`) {
		t.Error(strings.Join(lines, "\n"))
	}
}

// Inheritance by a discriminator has no list of the subtypes to make a union of: what is not taken over is reported once,
// at its place. A discriminator next to the variants is a hint that nothing depends on.
func TestReadInheritance(t *testing.T) {
	const text = `asyncapi: 3.0.0
channels:
  pets: {messages: {adopted: {payload: {$ref: '#/components/schemas/Pet'}}, lost: {payload: {$ref: '#/components/schemas/Cat'}}, any: {payload: {$ref: '#/components/schemas/Any'}}}}
components:
  schemas:
    Pet:
      type: object
      discriminator: petType
      properties: {name: {type: string}, petType: {type: string}}
      required: [name, petType]
    Cat: {allOf: [{$ref: '#/components/schemas/Pet'}, {type: object, properties: {huntingSkill: {enum: [lazy, adventurous]}}, required: [huntingSkill]}]}
    Any:
      type: object
      discriminator: kind
      oneOf: [{properties: {kind: {const: a}}, required: [kind]}, {properties: {kind: {const: b}}, required: [kind]}]
`
	doc, found := asyncapi.Read("pets.yaml", []byte(text))
	if len(doc.Events) != 3 || len(found) != 1 {
		t.Fatalf("%d events, found %v", len(doc.Events), found)
	}
	want := `pets.yaml:8:22: warning MCPE502: the discriminator "petType" is left out, and its subtypes are not told apart`
	if !strings.HasPrefix(found[0].String(), want) {
		t.Errorf("got %s, want %s", found[0], want)
	}
}

// Anything else is refused where it stands.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"asyncapi: 1.2.0\nchannels: {}\n":   "doc.yaml:1:11: error MCPE510",
		"openapi: 3.0.0\n":                  "doc.yaml:1:1: error MCPE510",
		"asyncapi: 3.0.0\n":                 "doc.yaml:1:1: error MCPE510",
		"asyncapi: 3.0.0\nchannels: [a]\n":  "doc.yaml:1:1: error MCPE510",
		"asyncapi: 3.0.0\nchannels: {a: \n": "error MCPE",
	} {
		events, found := asyncapi.Read("doc.yaml", []byte(text))
		if len(events.Events) > 0 || len(found) == 0 || !strings.Contains(found[0].String(), want) {
			t.Errorf("%q: got %v %v, want %s", text, events, found, want)
		}
	}
}

// What AsyncAPI's schemas cannot express is noted, and kept exactly beside.
func TestExportNotes(t *testing.T) {
	const file = `version: 1
events:
  - name: odd.one
    description: Uses what draft-07 has not.
    inputSchema: {type: object}
    payloadSchema:
      type: object
      properties:
        pair: {type: array, prefixItems: [{type: string}, {type: integer}], items: false}
        who: {$ref: '#/$defs/who', description: Who it was.}
      dependentRequired: {pair: [who]}
      unevaluatedProperties: false
      $defs: {who: {type: string}}
`
	set, found := schema.Load([]string{"odd.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	doc, notes := asyncapi.Export(set, asyncapi.Options{Title: "Odd", Version: "1"})
	if len(notes) != 1 || !strings.Contains(notes[0].String(), "note MCPE520: payloadSchema of odd.one uses unevaluatedProperties") {
		t.Error(notes)
	}
	payload := string(doc.Lookup("/components/messages/odd.one/payload").JSON())
	const want = `{"type":"object","properties":{"pair":{"type":"array","items":[{"type":"string"},{"type":"integer"}],"additionalItems":false},` +
		`"who":{"description":"Who it was.","allOf":[{"$ref":"#/components/schemas/who"}]}},"dependencies":{"pair":["who"]}}`
	if payload != want {
		t.Errorf("got  %s\nwant %s", payload, want)
	}
	if doc.Lookup("/channels/odd.one/x-mcp-event/exact/event") == nil {
		t.Error("the exact schema is not kept")
	}
}

// Version 2 names operations from the other side: subscribe is what the application sends.
func TestReadVersion2(t *testing.T) {
	const text = `asyncapi: 2.6.0
info: {title: Lights, version: 1.0.0}
channels:
  light/{id}/measured:
    parameters: {id: {schema: {type: string}}}
    subscribe:
      summary: How bright it is.
      message: {$ref: '#/components/messages/light~1measured'}
  light/many:
    subscribe:
      message:
        oneOf:
          - {name: on, payload: {type: object, properties: {at: {type: string, format: date-time}}}}
          - {messageId: off, summary: It is off., payload: {type: object}}
          - {name: avro, schemaFormat: application/vnd.apache.avro;version=1.9.0, payload: {type: record}}
  light/command: {publish: {message: {payload: {type: object}}}}
  empty: {}
components:
  messages:
    light/measured: {schemaFormat: application/vnd.aai.asyncapi;version=2.6.0, payload: {$ref: '#/components/schemas/Measured'}}
  schemas:
    Measured: {type: object, properties: {lumens: {type: integer, minimum: 0, maximum: 9}}}
`
	doc, found := asyncapi.Read("doc.yaml", []byte(text))
	var got []string
	for _, e := range doc.Events {
		got = append(got, e.Name+": "+e.Description)
	}
	if diff := cmp.Diff([]string{"light.measured: How bright it is.", "on: A message on.", "off: It is off."}, got); diff != "" {
		t.Error(diff)
	}
	var lines []string
	for _, d := range found {
		lines = append(lines, d.String())
	}
	if diff := cmp.Diff([]string{
		"doc.yaml:15:13: warning MCPE511: message avro is left out: its payload is written in application/vnd.apache.avro;version=1.9.0, not in JSON Schema",
		"doc.yaml:16:3: warning MCPE511: channel light/command is left out: the application only receives its messages",
	}, lines); diff != "" {
		t.Error(diff)
	}
	// Who has written publish alone has meant what the application publishes.
	doc, _ = asyncapi.Read("doc.yaml", []byte("asyncapi: 2.0.0\nchannels: {a: {publish: {message: {name: m, payload: {type: object}}}}}\n"))
	if len(doc.Events) != 1 || doc.Events[0].Name != "m" {
		t.Errorf("%+v", doc.Events)
	}
}

// A document that was changed after the export means what it says then.
func TestEditedExport(t *testing.T) {
	const file = `version: 1
schemas:
  Id: {type: string, x-go-type: encoding/json.Number}
events:
  - name: a
    description: Before.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema: {type: object, properties: {id: {$ref: '#/schemas/Id'}}}
  - {name: b, description: B., inputSchema: {type: object}, payloadSchema: {$ref: '#/schemas/B'}}
`
	const more = "  B: {type: object, properties: {id: {$ref: '#/schemas/Id'}}}\n"
	set, found := schema.Load([]string{"f.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) {
		return []byte(strings.Replace(file, "events:", more+"events:", 1)), nil
	}})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	doc, _ := asyncapi.Export(set, asyncapi.Options{Title: "T", Version: "1"})
	text, err := asyncapi.Text(doc, false)
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) string {
		doc, found := asyncapi.Read("doc.yaml", []byte(text))
		if len(found) > 0 {
			t.Fatal(found)
		}
		got, _, err := importer.Write(doc, importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := read(string(text)); !strings.Contains(got, "id: {$ref: '#/schemas/Id'}") || !strings.Contains(got, "payloadSchema: {$ref: '#/schemas/B'}") ||
		!strings.Contains(got, "Id: {type: string, x-go-type: encoding/json.Number}") {
		t.Errorf("%s", got)
	}
	edited := strings.ReplaceAll(string(text), "description: Before.", "description: After.")
	if got := read(edited); !strings.Contains(got, "description: After.") || strings.Contains(got, "Before") || !strings.Contains(got, "payloadSchema: {$ref: '#/schemas/B'}") {
		t.Errorf("%s", got)
	}
}

// Q8: the version of a schemaFormat is the dialect of its payload.
func TestSchemaFormatVersions(t *testing.T) {
	for format, want := range map[string]string{
		"application/schema+json;version=draft-07":        "http://json-schema.org/draft-07/schema#",
		"application/schema+yaml; version=draft-04":       "http://json-schema.org/draft-04/schema#",
		"application/schema+json;version=draft/2020-12":   "https://json-schema.org/draft/2020-12/schema",
		"application/schema+json;version=2019-09":         "https://json-schema.org/draft/2019-09/schema",
		"application/schema+json":                         "",
		"application/vnd.aai.asyncapi+json;version=2.6.0": "",
	} {
		doc, found := asyncapi.Read("a.yaml", []byte("asyncapi: 2.6.0\nchannels: {a: {subscribe: {message: {name: m, schemaFormat: '"+format+"', payload: {type: object}}}}}\n"))
		if len(doc.Events) != 1 {
			t.Fatalf("%s: %v", format, found)
		}
		n, _ := source.Parse("p.json", doc.Events[0].PayloadSchema)
		got := ""
		if s := n.Get("$schema"); s != nil {
			got = s.Text
		}
		if got != want {
			t.Errorf("%s: $schema %q, want %q", format, got, want)
		}
	}
}

// shared has n event types whose payloads reach the same large schemas.
func shared(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nevents:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: order.e%d, description: An order., inputSchema: {type: object}, payloadSchema: {type: object, required: [id], properties: {id: {type: string}, order: {$ref: '#/schemas/S0'}}}}\n", i)
	}
	b.WriteString("schemas:\n")
	for i := range 6 {
		fmt.Fprintf(&b, "  S%d:\n    type: object\n    properties:\n", i)
		for k := range 40 {
			fmt.Fprintf(&b, "      member_%d: {type: string}\n", k)
		}
		if i < 5 {
			fmt.Fprintf(&b, "      one: {$ref: '#/schemas/S%d'}\n      list: {type: array, items: {$ref: '#/schemas/S%[1]d'}}\n", i+1)
		}
	}
	return []byte(b.String())
}

// Examples of payloads over shared schemas have at most two kilobytes each, so that the document stays as large as its
// schemas.
func TestExamplesOfAnExportAreShort(t *testing.T) {
	file := shared(40)
	set, found := schema.Load([]string{"a.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	doc, _ := asyncapi.Export(set, asyncapi.Options{Title: "A", Version: "1"})
	for _, m := range doc.Lookup("/components/messages").Members {
		example := m.Value.Lookup("/examples/0/payload")
		if example == nil || example.Lookup("/order/member_0") == nil {
			t.Fatalf("%s has no example with its optional members", m.Key)
		}
		if size := len(example.JSON()); size > 2048 {
			t.Errorf("the example of %s has %d bytes", m.Key, size)
		}
	}
}

// A reader of AsyncAPI follows each $ref of the document. Those that are not references of schemas are left out of it with
// a note, wherever they stand, and an import has them back.
func TestExportLeavesOutWhatOnlyLooksLikeAReference(t *testing.T) {
	const file = `version: 1
events:
  - name: odd.one
    description: Has members $ref where no schema is.
    _meta: {example.com/x: {$ref: '#/schemas/Z'}}
    inputSchema: {type: object, additionalProperties: false, x-own: {$ref: '#/schemas/Z'}}
    payloadSchema:
      type: object
      x-own: {$ref: '#/schemas/Z'}
      x-list: [{a: {$ref: 'other.yaml'}}]
      x-fine: {ref: '#/schemas/Z'}
      properties:
        a: {$ref: '#/schemas/Z'}
        b: {type: string, x-own: {$ref: 7}}
        c: {const: {$ref: '#/no'}}
        d: {enum: [{$ref: '#/no'}, 1]}
        e: {type: object, default: {$ref: '#/no'}}
        f: {type: object, examples: [{a: {$ref: '#/no'}}]}
        x-own: {type: string}
schemas:
  Z: {type: string, x-own: {$ref: '#/schemas/Z'}}
`
	read := func(string) ([]byte, error) { return []byte(file), nil }
	set, found := schema.Load([]string{"odd.yaml"}, schema.Options{ReadFile: read})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	doc, notes := asyncapi.Export(set, asyncapi.Options{Title: "Odd", Version: "1", ReadFile: read})
	checkDocument(t, "odd.yaml", doc)
	payload := string(doc.Lookup("/components/messages/odd.one/payload").JSON())
	const want = `{"type":"object","x-fine":{"ref":"#/schemas/Z"},"properties":{"a":{"$ref":"#/components/schemas/Z"},"b":{"type":"string"},` +
		`"c":{},"d":{},"e":{"type":"object"},"f":{"type":"object"},"x-own":{"type":"string"}}}`
	if payload != want {
		t.Errorf("got  %s\nwant %s", payload, want)
	}
	var all strings.Builder
	for _, n := range notes {
		all.WriteString(n.String() + "\n")
	}
	for _, part := range []string{"_meta of odd.one uses a member $ref", "inputSchema of odd.one uses x-own", "payloadSchema of odd.one uses x-own", "uses x-list", "uses const", "uses enum", "uses default", "uses examples"} {
		if !strings.Contains(all.String(), part) {
			t.Errorf("no note that %s; the notes are:\n%s", part, all.String())
		}
	}
	text, err := asyncapi.Text(doc, false)
	if err != nil {
		t.Fatal(err)
	}
	back, found := asyncapi.Read("asyncapi.yaml", text)
	if len(found) > 0 {
		t.Fatal(found)
	}
	entry := string(importer.Node(back.Events[0]).JSON())
	for _, part := range []string{`"_meta":{"example.com/x":{"$ref":"#/schemas/Z"}}`, `"x-list":[{"a":{"$ref":"other.yaml"}}]`, `"const":{"$ref":"#/no"}`} {
		if !strings.Contains(entry, part) {
			t.Errorf("the import lacks %s: %s", part, entry)
		}
	}
}
