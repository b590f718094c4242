package importer_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An event file that is published and imported again publishes the same, and so has the same fingerprint;
// only the order of definitions may differ.
func TestImportPublishesWhatItWasMadeOf(t *testing.T) {
	files, err := filepath.Glob("../../../examples/schemas/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Glob("../../../golden/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range append(files, golden...) {
		set, found := schema.Load([]string{file}, schema.Options{})
		if source.HasErrors(found) {
			continue // a case about diagnostics
		}
		descriptors := describe(t, set)
		if len(descriptors) == 0 {
			continue
		}
		tried++
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, found, err := importer.Write(importer.Events(descriptors), importer.Options{From: "https://example.com/mcp", Package: "again"})
			if err != nil {
				t.Fatal(err, found)
			}
			for _, d := range found {
				if d.Severity != source.Note {
					t.Error(d)
				}
			}
			again := load(t, text)
			for i, d := range describe(t, again) {
				if canonical(t, d.InputSchema) != canonical(t, descriptors[i].InputSchema) || canonical(t, d.PayloadSchema) != canonical(t, descriptors[i].PayloadSchema) ||
					d.Name != descriptors[i].Name || d.Description != descriptors[i].Description || !reflect.DeepEqual(d.Meta, descriptors[i].Meta) {
					t.Errorf("%s is published as\n%+v\nnot\n%+v", d.Name, d, descriptors[i])
				}
			}
		})
	}
	if tried < 10 {
		t.Errorf("only %d event files were tried", tried)
	}
}

// canonical is equal for equal JSON.
func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	print, err := wire.Fingerprint(raw, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return print
}

func load(t *testing.T, text []byte) *schema.Set {
	t.Helper()
	set, found := schema.Load([]string{"again.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return text, nil }})
	_, more := ir.Build(set, ir.Options{Package: "again"})
	for _, d := range append(found, more...) {
		if d.Severity == source.Error {
			t.Fatalf("%s\n%s", d, text)
		}
	}
	return set
}

// describe is what a server of the events of the given files publishes.
func describe(t *testing.T, set *schema.Set) []wire.Descriptor {
	t.Helper()
	var ds []wire.Descriptor
	for _, f := range set.Files {
		for _, e := range f.Events {
			d := wire.Descriptor{Name: e.Name, Description: e.Description, Delivery: e.Delivery, Meta: map[string]any{}}
			if d.Delivery == nil {
				d.Delivery = []string{"poll", "push"}
			}
			d.InputSchema, d.PayloadSchema = set.Published(e.Input), set.Published(e.Payload)
			print, err := wire.Fingerprint(d.InputSchema, d.PayloadSchema)
			if err != nil {
				t.Fatal(err)
			}
			if meta := e.PublishedMeta(); meta != nil {
				if err := json.Unmarshal(meta, &d.Meta); err != nil {
					t.Fatal(err)
				}
			}
			d.Meta[wire.MetaFingerprint] = print
			ds = append(ds, d)
		}
	}
	return ds
}

const object = `{"type":"object"}`

func descriptor(name, input, payload string) wire.Descriptor {
	return wire.Descriptor{Name: name, Description: "About " + name + ".", Delivery: []string{"poll"}, InputSchema: json.RawMessage(input), PayloadSchema: json.RawMessage(payload)}
}

func write(t *testing.T, ds ...wire.Descriptor) (string, []string) {
	t.Helper()
	text, found, err := importer.Write(importer.Events(ds), importer.Options{From: "there"})
	if err != nil {
		t.Fatal(err, found)
	}
	load(t, text)
	var lines []string
	for _, d := range found {
		lines = append(lines, d.String())
	}
	return string(text), lines
}

// The file is one that a person would write.
func TestFileIsReadable(t *testing.T) {
	d := descriptor("incident.created", `{"type":"object","properties":{"severity":{"$ref":"#/$defs/Severity","description":"Only these."}},"$defs":{"Severity":{"type":"string","enum":["P1","P2"]}},"additionalProperties":false}`,
		`{"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Z]+-\\d+$"},"note":{"type":"string","description":"First line.\nSecond: line."},"n":{"type":"integer","maximum":9007199254740993}},"required":["id"]}`)
	d.Delivery = []string{"push", "carrier pigeon", "poll"}
	d.Meta = map[string]any{wire.MetaFingerprint: "0", "example.com/team": map[string]any{"name": "ops"}}
	got, found := write(t, d)
	if len(found) > 0 {
		t.Error(found)
	}
	want, err := os.ReadFile("testdata/readable.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A type that cannot be generated is left out with the reason, which the file repeats; the others stay.
func TestLeftOut(t *testing.T) {
	got, found := write(t,
		descriptor("a", object, object),
		descriptor("a", object, object),
		descriptor("a/b", object, object),
		descriptor("array", object, `{"type":"array"}`),
		descriptor("untyped_array", object, `{"items":{"type":"string"},"minItems":1}`),
		descriptor("array_by_reference", object, `{"$ref":"#/$defs/List","$defs":{"List":{"allOf":[{"prefixItems":[{"type":"string"}]}]}}}`),
		descriptor("untyped_text", object, `{"pattern":"^a"}`),
		descriptor("untyped_number", `{"minimum":1}`, object),
		descriptor("value", object, `{"const":5}`),
		descriptor("remote", object, `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`),
		descriptor("file", object, `{"type":"object","properties":{"a":{"$ref":"./a.yaml#/schemas/A"}}}`),
		descriptor("broken", object, `{"type":"object"`),
		descriptor("text", object, `"object"`),
		descriptor("dynamic", object, `{"type":"object","properties":{"a":{"$dynamicRef":"#a"}}}`),
	)
	if n := strings.Count(got, "- name:"); n != 1 {
		t.Errorf("%d events are written:\n%s", n, got)
	}
	if strings.Contains(strings.Join(found, "\n"), "MCPE502") {
		t.Errorf("an event that is left out is changed:\n%s", strings.Join(found, "\n"))
	}
	for _, name := range []string{`"a"`, `"a/b"`, `"array"`, `"untyped_array"`, `"array_by_reference"`, `"untyped_text"`, `"untyped_number"`, `"value"`, `"remote"`, `"file"`, `"broken"`, `"text"`, `"dynamic"`} {
		prefix := "there: warning MCPE501: event " + name + " is left out: "
		if !strings.Contains(strings.Join(found, "\n"), prefix) {
			t.Errorf("no finding about %s in\n%s", name, strings.Join(found, "\n"))
		}
		if !strings.Contains(got, "#   "+name+": ") {
			t.Errorf("no comment about %s in\n%s", name, got)
		}
	}
	_, _, err := importer.Write(importer.Events([]wire.Descriptor{descriptor("a b", object, object)}), importer.Options{})
	if !errors.Is(err, importer.ErrNothing) {
		t.Error(err)
	}
}

// What the format insists on is added, and reported because the descriptor changes.
func TestChanged(t *testing.T) {
	empty := descriptor("empty", "", `{"properties":{"a":{"type":"string","x-go-type":"os.File"}}}`)
	empty.Description = ""
	got, found := write(t, empty)
	if !strings.Contains(got, "inputSchema: {type: object}") || !strings.Contains(got, "a: {type: string}") {
		t.Error(got)
	}
	if len(found) != 5 || strings.Count(strings.Join(found, "\n"), "warning MCPE502: event \"empty\" is changed: ") != 5 {
		t.Error(strings.Join(found, "\n"))
	}
}

// COAL-1: what a descriptor says of joining becomes an x-coalesce. What is wrong with it, or with its key, is left out
// with a warning.
func TestCoalesce(t *testing.T) {
	const payload = `{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array"}}}`
	for said, want := range map[string]string{
		`{"key":["/id"],"quietSeconds":2,"maxSeconds":9,"keep":"all","more":1}`:  "x-coalesce: {key: /id, quietSeconds: 2, maxSeconds: 9, keep: all}",
		`{"key":["/id","/id2"],"quietSeconds":2,"maxSeconds":9,"keep":"latest"}`: `the payload has no member "id2"`,
		`{"key":["/tags"],"quietSeconds":2,"maxSeconds":9,"keep":"latest"}`:      "not array",
		`{"key":["id"],"quietSeconds":2,"maxSeconds":9,"keep":"latest"}`:         "not a JSON Pointer",
		`{"key":[],"quietSeconds":2,"maxSeconds":9,"keep":"latest"}`:             "key has 0 places",
		`{"key":["/id"],"quietSeconds":0,"maxSeconds":9,"keep":"latest"}`:        "quietSeconds is 0",
		`{"key":["/id"],"quietSeconds":2,"maxSeconds":1,"keep":"latest"}`:        "maxSeconds is 1",
		`{"key":["/id"],"quietSeconds":2,"maxSeconds":100000,"keep":"latest"}`:   "maxSeconds is 100000",
		`{"key":["/id"],"quietSeconds":2,"maxSeconds":9}`:                        `keep is ""`,
		`{"key":"/id","quietSeconds":2,"maxSeconds":9,"keep":"latest"}`:          "/key",
		`"/id"`: "is not an object",
		`null`:  "is not an object",
	} {
		d := descriptor("a", object, payload)
		if err := json.Unmarshal([]byte(`{"`+wire.MetaCoalesce+`":`+said+`}`), &d.Meta); err != nil {
			t.Fatal(err)
		}
		got, found := write(t, d)
		if strings.Contains(got, "_meta") {
			t.Errorf("%s:\n%s", said, got)
		}
		if strings.HasPrefix(want, "x-coalesce") {
			if !strings.Contains(got, want) || len(found) > 0 {
				t.Errorf("%s:\n%s\n%v", said, got, found)
			}
		} else if strings.Contains(got, "x-coalesce") || len(found) != 1 || !strings.Contains(found[0], "MCPE502") || !strings.Contains(found[0], want) {
			t.Errorf("%s: %v\n%s", said, found, got)
		}
	}
}

// ACTOR-1: what a descriptor says of the actor becomes an x-actor, and the argument that this adds is not written. What
// is wrong with it is left out with a warning.
func TestActor(t *testing.T) {
	const payload = `{"type":"object","properties":{"by":{"type":"string"},"n":{"type":"integer"}}}`
	input := func(path string) string {
		argument := schema.NotBy(path)
		argument.Members = slices.DeleteFunc(argument.Members, func(m source.Member) bool { return m.Key == "x-match" })
		return `{"type":"object","properties":{"q":{"type":"string"},"notBy":` + string(argument.JSON()) + `}}`
	}
	for _, c := range []struct{ path, input, want string }{
		{"/by", input("/by"), "x-actor: /by"},
		{"/n", input("/n"), "must be a string, not number"},
		{"/nobody", input("/nobody"), `the payload has no member "nobody"`},
		{"/by", object, "no notBy as x-actor adds it"},
		{"/by", `{"type":"object","properties":{"notBy":{"type":"string"}}}`, "no notBy as x-actor adds it"},
	} {
		d := descriptor("a", c.input, payload)
		d.Meta = map[string]any{wire.MetaActor: c.path}
		got, found := write(t, d)
		if strings.Contains(got, "_meta") {
			t.Errorf("%s:\n%s", c.path, got)
		}
		if strings.HasPrefix(c.want, "x-actor") {
			if !strings.Contains(got, c.want) || strings.Contains(got, "notBy") || len(found) > 0 {
				t.Errorf("%s:\n%s\n%v", c.path, got, found)
			}
		} else if strings.Contains(got, "x-actor") || len(found) != 1 || !strings.Contains(found[0], "MCPE502") || !strings.Contains(found[0], c.want) {
			t.Errorf("%s: %v\n%s", c.path, found, got)
		}
	}
}

// Names that meet in one Go identifier are told apart without a change of what is published.
func TestGoNamesAreToldApart(t *testing.T) {
	ds := []wire.Descriptor{
		descriptor("a.b", object, `{"type":"object","properties":{"x-y":{"type":"string"},"x_y":{"type":"integer"},"x.y":{"type":"object","properties":{"a":{"type":"string"}}}}}`),
		descriptor("a-b", object, object),
		descriptor("a_b", object, object),
	}
	got, found := write(t, ds...)
	for _, want := range []string{"x-go-name: AB2", "x-go-name: AB3", "x-go-name: XY2", "x-go-name: XY3"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("no %s in\n%s\n%s", want, got, strings.Join(found, "\n"))
		}
	}
	if len(found) != 4 {
		t.Error(strings.Join(found, "\n"))
	}
	for i, d := range describe(t, load(t, []byte(got))) {
		if string(d.PayloadSchema) != string(ds[i].PayloadSchema) {
			t.Errorf("%s is published as %s", d.Name, d.PayloadSchema)
		}
	}
}

// Text of others stays in its comment.
func TestCommentsHoldUntrustedText(t *testing.T) {
	text, _, err := importer.Write(importer.Events([]wire.Descriptor{descriptor("a", object, object)}), importer.Options{From: "x\nevents: []\u2028y"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# Event types of x events: [] y, written") {
		t.Errorf("%s", text)
	}
}

const (
	person  = `"Person":{"type":"object","properties":{"id":{"type":"string"},"boss":{"$ref":"#/$defs/Person"},"level":{"$ref":"#/$defs/Level"}}}`
	level   = `"Level":{"type":"string","enum":["low","high"]}`
	another = `"Level":{"type":"integer","minimum":0,"maximum":9}`
)

// What a server copied into each schema becomes one shared schema again, named as it is published. One of
// the same name that means something else stays where it is, and so does what refers to it.
func TestDefinitionsBecomeShared(t *testing.T) {
	refer := func(name, defs string) string {
		return `{"type":"object","properties":{"x":{"$ref":"#/$defs/` + name + `"}},"$defs":{` + defs + `}}`
	}
	ds := []wire.Descriptor{
		descriptor("a", refer("Level", level), refer("Person", level+","+person)),
		descriptor("b", object, refer("Person", person+","+level)),
		descriptor("c", object, refer("Person", person+","+another)),
		descriptor("d", object, `{"type":"object","properties":{"x":{"$ref":"#/$defs/Level"}},"$defs":{`+level+`,"Unused":{"type":"string"}}}`),
		descriptor("e", object, `{"type":"object","properties":{"x":{"$ref":"#/$defs/Self"}},"$defs":{"Self":{"$ref":"#"}}}`),
		descriptor("f", object, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x":{"$ref":"#/definitions/Level"}},"definitions":{`+level+`}}`),
	}
	got, found := write(t, ds...)
	if len(found) > 0 {
		t.Error(found)
	}
	set := load(t, []byte(got))
	var names []string
	for _, e := range set.Files[0].Schemas {
		names = append(names, e.Name)
	}
	if strings.Join(names, " ") != "Level Person" || strings.Count(got, "$ref: '#/schemas/Level'") != 3 || strings.Count(got, "$ref: '#/schemas/Person'") != 3 {
		t.Errorf("shared are %v in\n%s", names, got)
	}
	for i, d := range describe(t, set) {
		if canonical(t, d.PayloadSchema) != canonical(t, ds[i].PayloadSchema) || canonical(t, d.InputSchema) != canonical(t, ds[i].InputSchema) {
			t.Errorf("%s is published as\n%s %s", d.Name, d.InputSchema, d.PayloadSchema)
		}
	}
}
