package events_test

import (
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
