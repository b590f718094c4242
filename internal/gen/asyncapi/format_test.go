package asyncapi_test

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
)

// A payload that is written as a schema of OpenAPI becomes JSON Schema, with the schemas that it refers to.
func TestPayloadsOfOpenAPI(t *testing.T) {
	const document = `asyncapi: 3.0.0
info: {title: A, version: 1.0.0}
channels:
  orders:
    messages:
      placed:
        payload:
          schemaFormat: FORMAT
          schema:
            type: object
            properties:
              note: {type: string, nullable: true, example: Hello, xml: {name: n}}
              price: {type: number, minimum: 0, exclusiveMinimum: true}
              by: {$ref: '#/components/schemas/Person', description: Who it was.}
operations: {send: {action: send, channel: {$ref: '#/channels/orders'}}}
components: {schemas: {Person: {type: object, properties: {name: {type: string, nullable: true}, boss: {$ref: '#/components/schemas/Person'}}}}}
`
	for _, format := range []string{
		"application/vnd.oai.openapi;version=3.0.0", "application/vnd.oai.openapi+json; version=3.0.3", "application/vnd.oai.openapi+yaml;version=\"3.1.0\"",
	} {
		doc, found := asyncapi.Read("a.yaml", []byte(strings.Replace(document, "FORMAT", "'"+format+"'", 1)))
		if len(doc.Events) != 1 || len(found) > 0 {
			t.Errorf("%s: %d events, %v", format, len(doc.Events), found)
			continue
		}
		got := string(doc.Events[0].PayloadSchema)
		const want = `{"type":"object","properties":{"note":{"type":["string","null"]},"price":{"type":"number","exclusiveMinimum":0},` +
			`"by":{"$ref":"#/$defs/Person"}},"$defs":{"Person":{"type":"object","properties":{"name":{"type":["string","null"]},"boss":{"$ref":"#/$defs/Person"}}}}}`
		if got != want {
			t.Errorf("%s: got  %s\nwant %s", format, got, want)
		}
	}
	for _, format := range []string{"application/vnd.oai.openapi;version=2.0", "application/vnd.oai.openapi", "application/raml+yaml;version=1.0"} {
		doc, found := asyncapi.Read("a.yaml", []byte(strings.Replace(document, "FORMAT", format, 1)))
		if len(doc.Events) > 0 || len(found) == 0 || !strings.Contains(found[0].String(), "MCPE511") || !strings.Contains(found[0].Message, "written in "+format) {
			t.Errorf("%s: %d events, %v", format, len(doc.Events), found)
		}
	}
}
