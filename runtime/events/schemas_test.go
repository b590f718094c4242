package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
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
	s := events.NewSchemas(schemasText)
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
		if got := events.NewSchemas(damaged).Event("a.b", "inputSchema"); len(got) != 0 {
			t.Errorf("%s gives %s", damaged, got)
		}
	}
}

// A description whose file is damaged, or of another generation, says so and what to do; registering it
// returns that.
func TestSchemasDescribe(t *testing.T) {
	s := events.NewSchemas(schemasText)
	i := s.Describe("lost")
	if err := i.Err(); err == nil || err.Error() != `mcpe.schemas.json is damaged (generate again): the inputSchema of lost: no definition "Nobody"` {
		t.Errorf("a lost definition: %v", err)
	}
	described := func(members string) string {
		return `{"events":{"a.b":{` + members + `"inputSchema":true,"payloadSchema":{ }}}}`
	}
	for text, want := range map[string]string{
		"": "the inputSchema of a.b: it is no such file: unexpected end of JSON input", `{"events":{}}`: "the inputSchema of a.b: it is missing",
		`{"events":[]}`:                         "the inputSchema of a.b: it is no such file: json: cannot unmarshal array",
		`{"events":{"a.b":{"inputSchema":{}}}}`: "the payloadSchema of a.b: it is missing",
		`{"events":{"a.b":{"inputSchema":{"$defs":[1]},"payloadSchema":{}}}}`:                 "the inputSchema of a.b: json: cannot unmarshal number",
		`{"events":{"a.b":{"inputSchema":true,"payloadSchema":{"definitions":[["x","y"]]}}}}`: `the payloadSchema of a.b: no definition "y"`,
		described(``): "the description of a.b: it has no fingerprint",
		described(`"description":1,"fingerprint":"f",`): "the description of a.b: description: json: cannot unmarshal number",
		described(`"match":[{}, 1],"fingerprint":"f",`): "the description of a.b: match: json: cannot unmarshal number",
		described(`"meta":[],"fingerprint":"f",`):       "the description of a.b: meta: json: cannot unmarshal array",
	} {
		i := events.NewSchemas(text).Describe("a.b")
		if err := i.Err(); err == nil || !strings.HasPrefix(err.Error(), "mcpe.schemas.json is damaged (generate again): "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	i = events.NewSchemas(described(`"description":"D","delivery":["poll"],"fingerprint":"f","meta":{"a/b": { "n": 1.0, "s":"\u00e9" }},
		"source":"check","noReplay":true,"match":[{"argument":"a","path":"/p","op":"glob"}],"mcpe":{"disabled":true,"priority":"high","tags":["t"]},`)).Describe("a.b")
	if i.Err() != nil {
		t.Fatal(i.Err())
	}
	if meta := string(i.Meta["a/b"].(json.RawMessage)); meta != `{"n":1.0,"s":"\u00e9"}` {
		t.Errorf("_meta is %s, not what the author wrote", meta)
	}
	i.Meta = nil
	want := events.Info{Name: "a.b", Description: "D", Delivery: []string{"poll"}, Fingerprint: "f", Source: events.SourceCheck, NoReplay: true,
		InputSchema: json.RawMessage("true"), PayloadSchema: json.RawMessage("{}"),
		Match: []events.MatchRule{{Argument: "a", Path: "/p", Op: events.MatchGlob}},
		MCPE:  &events.MCPE{Disabled: true, Priority: "high", Tags: []string{"t"}}}
	if !reflect.DeepEqual(i, want) {
		t.Errorf("described as %+v, want %+v", i, want)
	}
	if i := (events.Info{}); i.Err() != nil {
		t.Error("a description that was written by hand has an error")
	}
}

// The event types have the order of the file.
func TestSchemasEvents(t *testing.T) {
	s := events.NewSchemas(`{"events":{"z":{},"a":{"x":{"b":1}},"\u006d":{}}}`)
	for range 2 {
		names := s.Events()
		if !slices.Equal(names, []string{"z", "a", "m"}) {
			t.Errorf("the event types are %q", names)
		}
		names[0] = "changed"
	}
	if names := events.NewSchemas("{").Events(); names != nil {
		t.Errorf("a damaged file has %q", names)
	}
}

// A schema is made once, however often its type is registered.
func TestSchemasOnce(t *testing.T) {
	s := events.NewSchemas(schemasText)
	a, b := s.Event("a.b", "inputSchema"), s.Event("a.b", "inputSchema")
	if !bytes.Equal(a, b) || &a[0] != &b[0] {
		t.Error("the second call made another text")
	}
}
