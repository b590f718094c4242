package eventsimpl_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

const schemasText = `{
 "$defs": {
  "Person": {"type": "object", "enum": [1.0, "a b", "\u00e9 \" }"]},
  "Person#2": {"type": "string"}
 },
 "events": {
  "a.b": {
   "inputSchema": {"properties": {"$defs": {"items": [1]}}, "$defs": ["Person"], "title": "x"},
   "payloadSchema": {"definitions": [["Person", "Person#2"], "Person#2"], "$defs": {"X": true}}
  },
  "lost": {"inputSchema": {"$defs": ["Nobody"]}, "payloadSchema": true}
 },
 "tasks": {"t": {"resultSchema": { }}}
}`

// What is published is the compact form, its definitions in the place and order of the list.
func TestSchemasExpand(t *testing.T) {
	s := eventsimpl.NewSchemas(schemasText)
	for _, c := range []struct{ event, member, want string }{
		{"a.b", "inputSchema", `{"properties":{"$defs":{"items":[1]}},"$defs":{"Person":{"type":"object","enum":[1.0,"a b","\u00e9 \" }"]}},"title":"x"}`},
		{"a.b", "payloadSchema", `{"definitions":{"Person":{"type":"string"},"Person#2":{"type":"string"}},"$defs":{"X":true}}`},
		{"lost", "payloadSchema", `true`},
		{"lost", "inputSchema", ``}, {"none", "inputSchema", ``}, {"a.b", "resultSchema", ``},
	} {
		if got := string(s.Event(c.event, c.member)); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.member, c.event, got, c.want)
		}
	}
	if got := string(s.Task("t", "resultSchema")); got != "{}" {
		t.Errorf("a task's schema is %s", got)
	}
	for _, damaged := range []string{"", "{", "[]", "null", `{"events":{"a.b":{"inputSchema":{"$defs":[1]}}}}`, `{"events":{"a.b":{"inputSchema":{"$defs":[["x"]]}}}}`} {
		if got := eventsimpl.NewSchemas(damaged).Event("a.b", "inputSchema"); len(got) != 0 {
			t.Errorf("%s gives %s", damaged, got)
		}
	}
}

// A description whose file is damaged, or of another generation, says so and what to do; registering it
// returns that.
func TestSchemasDescribe(t *testing.T) {
	s := eventsimpl.NewSchemas(schemasText)
	i := s.Describe("lost")
	if err := published.Of(&i).Err; err == nil || err.Error() != `mcpe.schemas.json is damaged (generate again): the inputSchema of lost: no definition "Nobody"` {
		t.Errorf("a lost definition: %v", err)
	}
	described := func(members string) string {
		return `{"events":{"a.b":{` + members + `"inputSchema":true,"payloadSchema":{ }}}}`
	}
	for text, want := range map[string]string{
		"": "the inputSchema of a.b: it is not such a file: unexpected end of JSON input", `{"events":{}}`: "the inputSchema of a.b: it is missing",
		`{"events":[]}`:                         "the inputSchema of a.b: it is not such a file: json: cannot unmarshal array",
		`{"events":{"a.b":{"inputSchema":{}}}}`: "the payloadSchema of a.b: it is missing",
		`{"events":{"a.b":{"inputSchema":{"$defs":[1]},"payloadSchema":{}}}}`:                 "the inputSchema of a.b: json: cannot unmarshal number",
		`{"events":{"a.b":{"inputSchema":true,"payloadSchema":{"definitions":[["x","y"]]}}}}`: `the payloadSchema of a.b: no definition "y"`,
		described(``): "the description of a.b: it has no fingerprint",
		described(`"description":1,"fingerprint":"f",`): "the description of a.b: description: json: cannot unmarshal number",
		described(`"match":[{}, 1],"fingerprint":"f",`): "the description of a.b: match: json: cannot unmarshal number",
		described(`"meta":[],"fingerprint":"f",`):       "the description of a.b: meta: json: cannot unmarshal array",
	} {
		i := eventsimpl.NewSchemas(text).Describe("a.b")
		if err := published.Of(&i).Err; err == nil || !strings.HasPrefix(err.Error(), "mcpe.schemas.json is damaged (generate again): "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	i = eventsimpl.NewSchemas(described(`"description":"D","delivery":["poll"],"fingerprint":"f","meta":{"a/b": { "n": 1.0, "s":"\u00e9" }},
		"source":"check","noReplay":true,"match":[{"argument":"a","path":"/p","op":"glob"}],"mcpe":{"disabled":true,"priority":"high","tags":["t"]},`)).Describe("a.b")
	if published.Of(&i).Err != nil {
		t.Fatal(published.Of(&i).Err)
	}
	if meta := string(i.Meta["a/b"].(json.RawMessage)); meta != `{"n":1.0,"s":"\u00e9"}` {
		t.Errorf("_meta is %s, not what the author wrote", meta)
	}
	i.Meta = nil
	want := events.Info{Name: "a.b", Description: "D", Delivery: []string{"poll"}, Fingerprint: "f", Source: events.SourceCheck, NoReplay: true,
		InputSchema: json.RawMessage("true"), PayloadSchema: json.RawMessage("{}"),
		Match: []events.MatchRule{{Argument: "a", Path: "/p", Op: events.MatchGlob}},
		MCPE:  &events.MCPE{Disabled: true, Priority: "high", Tags: []string{"t"}}}
	for f := range reflect.TypeFor[events.Info]().NumField() {
		field := reflect.TypeFor[events.Info]().Field(f)
		if got, want := reflect.ValueOf(i).Field(f), reflect.ValueOf(want).Field(f); field.IsExported() && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is described as %v, want %v", field.Name, got, want)
		}
	}
	i = events.Info{}
	if published.Of(&i).Err != nil {
		t.Error("a description that was written by hand has an error")
	}
}

// The event types have the order of the file.
func TestSchemasEvents(t *testing.T) {
	s := eventsimpl.NewSchemas(`{"events":{"z":{},"a":{"x":{"b":1}},"\u006d":{}}}`)
	for range 2 {
		names := s.Events()
		if !slices.Equal(names, []string{"z", "a", "m"}) {
			t.Errorf("the event types are %q", names)
		}
		names[0] = "changed"
	}
	if names := eventsimpl.NewSchemas("{").Events(); names != nil {
		t.Errorf("a damaged file has %q", names)
	}
}

// A definition is kept once, however many schemas lead to it, in the order in which references lead on; one that
// leads back to itself ends. Of two that have one name each schema has its own.
func TestSchemasShared(t *testing.T) {
	s := eventsimpl.NewSchemas(`{"$defs":{"A":{"a":1},"B":{"b":1},"C":{"c":1},"B#2":{"b":2}},
		"refs":{"A":["C","B"],"C":["A"],"B#2":[["B","B#2"],"C"]},
		"events":{"x":{"fingerprint":"f","inputSchema":{"$defs":[{"Own":true},"A"],"z":1},"payloadSchema":{"definitions":["B","A"]}},
		"y":{"fingerprint":"f","inputSchema":{"$defs":[["B","B#2"]]},"payloadSchema":{"$defs":[{}]}}}}`)
	for _, c := range []struct{ event, member, want string }{
		{"x", "inputSchema", `{"$defs":{"Own":true,"A":{"a":1},"C":{"c":1},"B":{"b":1}},"z":1}`},
		{"x", "payloadSchema", `{"definitions":{"B":{"b":1},"A":{"a":1},"C":{"c":1}}}`},
		{"y", "inputSchema", `{"$defs":{"B":{"b":2},"C":{"c":1},"A":{"a":1},"B":{"b":1}}}`}, // B is A's, whoever wrote that
		{"y", "payloadSchema", `{"$defs":{}}`},
	} {
		if got := string(s.Event(c.event, c.member)); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.member, c.event, got, c.want)
		}
	}
	x := s.Describe("x")
	input, payload := published.Of(&x).Schemas(x.InputSchema, x.PayloadSchema)
	if input.Refs[0] != payload.Refs[1] || string(input.Short()) != `{"$defs":{"Own":true},"z":1}` {
		t.Errorf("the two schemas have %v and %v, the first is %s", input.Refs, payload.Refs, input.Short())
	}
	x.PayloadSchema = json.RawMessage(`{"changed":true}`)
	if _, payload := published.Of(&x).Schemas(x.InputSchema, x.PayloadSchema); string(payload.JSON()) != `{"changed":true}` || payload.Refs != nil {
		t.Errorf("a description that was changed still has %s", payload.JSON())
	}
}

// What leads to a definition that is missing is damaged, also when something else that leads there was asked for
// before.
func TestSchemasSharedDamaged(t *testing.T) {
	s := eventsimpl.NewSchemas(`{"$defs":{"A":{},"B":{}},"refs":{"A":["B","Gone"],"B":["A"]},
		"events":{"x":{"inputSchema":{"$defs":["A"]}},"y":{"inputSchema":{"$defs":["B"]}}}}`)
	for _, name := range []string{"x", "y"} {
		i := s.Describe(name)
		if err := published.Of(&i).Err; err == nil || !strings.Contains(err.Error(), `no definition "Gone"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
