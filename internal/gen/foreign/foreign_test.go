package foreign_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/foreign"
)

// Each format is read by its own reader, and anything else is refused with what to do instead.
func TestRead(t *testing.T) {
	for _, c := range []struct{ text, event, want string }{
		{"asyncapi: 3.0.0\nchannels: {a: {messages: {m: {payload: {type: object}}}}}\n", "m", ""},
		{"asyncapi: 2.6.0\nchannels: {a: {subscribe: {message: {name: m, payload: {type: object}}}}}\n", "m", ""},
		{"openapi: 3.1.0\nwebhooks: {w: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}}\n", "w", ""},
		{"swagger: '2.0'\n", "", "d.yaml:1:10: error MCPE510: this is not an OpenAPI document of version 3 (convert an older one first"},
		{"asyncapi: 1.0.0\n", "", "d.yaml:1:11: error MCPE510: this is not an AsyncAPI document of version 2 or 3"},
		{"version: 1\nevents: []\n", "", "d.yaml:1:1: error MCPE510: this is an event file already (give it to generate as it is)"},
		{"type: object\nproperties: {}\n", "", "d.yaml:1:1: error MCPE510: this is one JSON Schema, and does not say of which event (give the directory that holds it: import DIR --event-from filename)"},
		{"a: 1\n", "", "d.yaml:1:1: error MCPE510: this is neither an AsyncAPI nor an OpenAPI document (its first line would be"},
		{"a: [\n", "", "error MCPE"},
		{"[]\n", "", "error MCPE510"},
	} {
		doc, found := foreign.Read("d.yaml", []byte(c.text), foreign.Options{})
		var all []string
		for _, d := range found {
			all = append(all, d.String()+" ("+d.Hint+")")
		}
		if c.want == "" && (len(found) > 0 || len(doc.Events) != 1 || doc.Events[0].Name != c.event) ||
			c.want != "" && (len(doc.Events) > 0 || !strings.Contains(strings.Join(all, "\n"), c.want)) {
			t.Errorf("%q: got %v %v", c.text, doc.Events, all)
		}
	}
}
