package events_test

import (
	"bytes"
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
	i := s.Describe(&events.Info{Name: "lost", Fingerprint: "f"})
	if err := i.Err(); err == nil || err.Error() != `mcpe.schemas.json is damaged (generate again): the inputSchema of lost: no definition "Nobody"` {
		t.Errorf("a lost definition: %v", err)
	}
	for text, want := range map[string]string{
		"": "the inputSchema of a.b: it is no such file: unexpected end of JSON input", `{"events":{}}`: "the inputSchema of a.b: it is missing",
		`{"events":{"a.b":{"inputSchema":{}}}}`:                                               "the payloadSchema of a.b: it is missing",
		`{"events":{"a.b":{"inputSchema":{"$defs":[1]},"payloadSchema":{}}}}`:                 "the inputSchema of a.b: json: cannot unmarshal number",
		`{"events":{"a.b":{"inputSchema":true,"payloadSchema":{"definitions":[["x","y"]]}}}}`: `the payloadSchema of a.b: no definition "y"`,
	} {
		i := events.NewSchemas(text).Describe(&events.Info{Name: "a.b"})
		if err := i.Err(); err == nil || !strings.HasPrefix(err.Error(), "mcpe.schemas.json is damaged (generate again): "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	i = events.NewSchemas(`{"events":{"a.b":{"inputSchema":true,"payloadSchema":{ }}}}`).Describe(&events.Info{Name: "a.b", Fingerprint: "f"})
	if i.Err() != nil || string(i.InputSchema) != "true" || string(i.PayloadSchema) != "{}" || i.Fingerprint != "f" {
		t.Errorf("described as %+v", i)
	}
	if i := (events.Info{}); i.Err() != nil {
		t.Error("a description that was written by hand has an error")
	}
}

// A schema is made once: subscribing describes its type each time.
func TestSchemasOnce(t *testing.T) {
	s := events.NewSchemas(schemasText)
	a, b := s.Event("a.b", "inputSchema"), s.Event("a.b", "inputSchema")
	if !bytes.Equal(a, b) || &a[0] != &b[0] {
		t.Error("the second call made another text")
	}
}
