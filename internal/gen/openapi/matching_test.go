package openapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Schemas of the components become event types by patterns of their names, next to the webhooks, and stay shared.
func TestComponentsByName(t *testing.T) {
	const document = `openapi: 3.0.3
info: {title: Shop, version: 1.0.0}
paths: {}
components:
  schemas:
    OrderPlacedEvent: {type: object, description: An order was placed., properties: {order: {$ref: '#/components/schemas/Order'}, before: {$ref: '#/components/schemas/OrderGoneEvent'}}}
    OrderGoneEvent: {type: object, deprecated: true, properties: {note: {type: string, nullable: true}}}
    Order: {type: object, properties: {id: {type: string}}}
`
	read := func(text string, patterns ...string) (names []string, payloads string, found string) {
		root, ds := source.Parse("a.yaml", []byte(text))
		if source.HasErrors(ds) {
			t.Fatal(ds)
		}
		doc, ds := openapi.Read(root, patterns...)
		for _, e := range doc.Events {
			names = append(names, e.Name+": "+e.Description)
			payloads += string(e.PayloadSchema)
		}
		return names, payloads, lines(ds)
	}
	names, payloads, found := read(document, "*PlacedEvent", "OrderG*")
	if diff := cmp.Diff([]string{"OrderPlacedEvent: An order was placed.", "OrderGoneEvent: The event OrderGoneEvent."}, names); diff != "" || found != "" {
		t.Errorf("%s%s", diff, found)
	}
	if want := `{"$ref":"#/schemas/OrderPlacedEvent"}{"$ref":"#/schemas/OrderGoneEvent"}`; payloads != want {
		t.Errorf("payloads are %s, want %s", payloads, want)
	}
	if names, _, found := read(document, "*Evnt"); len(names) > 0 || !strings.Contains(found, `MCPE511: no schema of the components matches "*Evnt"`) {
		t.Errorf("a pattern that nothing matches: %v, %s", names, found)
	}
	bare, _, _ := strings.Cut(document, "components:")
	if names, _, found := read(bare, "*Event", "X*"); len(names) > 0 || strings.Count(found, "MCPE511") != 1 || !strings.Contains(found, "has no schemas below /components/schemas") {
		t.Errorf("a document without components: %v, %s", names, found)
	}
	if names, _, found := read(document); len(names) > 0 || !strings.Contains(found, "MCPE510") {
		t.Errorf("without patterns: %v, %s", names, found)
	}
	hooks := document + "webhooks: {ping: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}}}}}\n"
	if names, _, _ := read(hooks, "*Event"); len(names) != 3 || !strings.HasPrefix(names[0], "ping:") {
		t.Errorf("next to a webhook: %v", names)
	}
}
