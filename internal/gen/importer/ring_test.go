package importer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Q2: a server whose schemas lead to each other publishes all of them with each event type; the file has each once,
// and publishes the same again. Only the type whose definition differs keeps its own.
func TestImportRing(t *testing.T) {
	const n = 150
	var descriptors []wire.Descriptor
	for i := range n {
		var defs []string
		for j := range n {
			text := fmt.Sprintf(`"S%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/S%d"},"x":{"$ref":"#/$defs/S%d"}}}`, j, (j+1)%n, (7*j+3)%n)
			if i == n-1 && j == 3 {
				text = strings.Replace(text, `{"next"`, `{"other":{"type":"string"},"next"`, 1)
			}
			defs = append(defs, text)
		}
		descriptors = append(descriptors, wire.Descriptor{Name: fmt.Sprintf("s.t%d", i), Description: "Fires.", InputSchema: json.RawMessage(`{"type":"object"}`),
			PayloadSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"#/$defs/S%d"}},"$defs":{%s}}`, i, strings.Join(defs, ",")))})
	}
	text, found, err := importer.Write(importer.Events(descriptors), importer.Options{From: "a server"})
	if err != nil || source.HasErrors(found) {
		t.Fatal(err, found)
	}
	set, found := schema.Load([]string{"e.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return text, nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	if got := len(set.Files[0].Schemas); got != n {
		t.Errorf("%d shared schemas, want %d", got, n)
	}
	for i, e := range set.Files[0].Events {
		want, _ := wire.Fingerprint(descriptors[i].InputSchema, descriptors[i].PayloadSchema)
		if got, err := set.Fingerprint(set.Shared(e.Input), set.Shared(e.Payload)); err != nil || got != want {
			t.Errorf("%s publishes something else than the server (%v)", e.Name, err)
		}
		if own := e.Payload.Get("$defs") != nil; own != (i == n-1) {
			t.Errorf("%s has definitions of its own: %v", e.Name, own)
		}
	}
}
